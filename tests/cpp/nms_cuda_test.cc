// Suppression on the emulated GPU, of boxes and of rotated boxes: what the scalar implementation
// keeps, in its order.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <random>

#include "endcap/cuda.h"
#include "endcap/implementation.h"
#include "endcap/nms.h"
#include "error_matchers.h"

namespace endcap {
namespace {

using testing::Throws;

// Before the library is looked for, which happens once a process.
const bool kLibraryIsNamed = setenv("ENDCAP_CUDA_LIBRARY", EMULATED_CUDA_LIBRARY, 1) == 0;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Boxes {
  std::vector<float> boxes;  // of 4 or 5 numbers
  std::vector<float> scores;
  std::vector<int32_t> class_ids;  // empty: one class
};

// A vector's copy in device memory.
template <typename T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& values)
      : memory_(AllocateCuda(values.size() * sizeof(T), {})) {
    CopyCuda(memory_.get(), values.data(), values.size() * sizeof(T), {});
  }
  T* get() const { return static_cast<T*>(memory_.get()); }
  std::vector<T> Read(size_t count) const {
    std::vector<T> values(count);
    CopyCuda(values.data(), get(), count * sizeof(T), {});
    SynchronizeCuda({});
    return values;
  }

 private:
  std::shared_ptr<void> memory_;
};

// No method: boxes with axis-aligned sides.
class NmsCudaTest : public ::testing::TestWithParam<std::optional<RotatedNms>> {
 protected:
  static bool rotated() { return GetParam().has_value(); }

  // Boxes that crowd around `crowds` places, rotated ones at few angles, with scores on a grid.
  static Boxes RandomBoxes(uint32_t seed, size_t count, int crowds, bool with_classes = false) {
    std::mt19937 random(seed);
    const auto uniform = [&](float low, float high) {
      return std::uniform_real_distribution<float>(low, high)(random);
    };
    Boxes made;
    for (size_t i = 0; i < count; ++i) {
      const float place = std::floor(uniform(0.0F, static_cast<float>(crowds))) * 40.0F;
      const float x = place + uniform(-7.0F, 7.0F);
      const float y = std::fmod(place * 7.0F, 1000.0F) + uniform(-7.0F, 7.0F);
      if (rotated()) {
        made.boxes.insert(made.boxes.end(), {x, y, uniform(0.0F, 60.0F), uniform(0.0F, 20.0F),
                                             std::floor(uniform(-9.0F, 9.0F)) * 0.4F});
      } else {
        made.boxes.insert(made.boxes.end(),
                          {x, y, x + uniform(10.0F, 40.0F), y + uniform(10.0F, 40.0F)});
      }
      made.scores.push_back(std::floor(uniform(-50.0F, 500.0F)) / 500.0F);
      if (with_classes) made.class_ids.push_back(static_cast<int32_t>(random() % 5) * 1000 - 2000);
    }
    return made;
  }

  // The count, and the kept indices where it is not negative.
  static std::pair<int64_t, std::vector<int64_t>> OnGpu(const Boxes& given, double iou_threshold,
                                                        int64_t max_detections = -1) {
    const auto count = static_cast<int64_t>(given.scores.size());
    const OnDevice boxes(given.boxes);
    const OnDevice scores(given.scores);
    const OnDevice classes(given.class_ids);
    const OnDevice kept(std::vector<int64_t>(given.scores.size(), -7));
    const OnDevice kept_count(std::vector<int64_t>{-7});
    const int32_t* ids = given.class_ids.empty() ? nullptr : classes.get();
    if (rotated()) {
      NmsRotatedCuda(boxes.get(), scores.get(), ids, count,
                     {iou_threshold, max_detections, *GetParam()}, 0, nullptr, kept.get(),
                     kept_count.get());
    } else {
      NmsCuda(boxes.get(), scores.get(), ids, count, {iou_threshold, max_detections}, 0, nullptr,
              kept.get(), kept_count.get());
    }
    const int64_t found = kept_count.Read(1)[0];
    return {found, kept.Read(static_cast<size_t>(std::max<int64_t>(found, 0)))};
  }

  static std::vector<int64_t> ExpectSameAsCpu(const Boxes& given, double iou_threshold,
                                              int64_t max_detections = -1) {
    ForceImplementation("scalar");
    const auto expected = rotated() ? NmsRotated(given.boxes, given.scores, given.class_ids,
                                                 {iou_threshold, max_detections, *GetParam()})
                                    : Nms(given.boxes, given.scores, given.class_ids,
                                          {iou_threshold, max_detections});
    ForceImplementation("auto");
    const auto [count, kept] = OnGpu(given, iou_threshold, max_detections);
    EXPECT_EQ(count, std::ssize(expected));
    EXPECT_EQ(kept, expected);
    return expected;
  }
};

INSTANTIATE_TEST_SUITE_P(Methods, NmsCudaTest,
                         ::testing::Values(std::nullopt, RotatedNms::kPolygon, RotatedNms::kProbiou,
                                           RotatedNms::kProbiouFast),
                         [](const auto& tested) {
                           return std::string(
                               tested.param ? RotatedNmsNames()[static_cast<size_t>(*tested.param)]
                                            : "axis_aligned");
                         });

TEST_P(NmsCudaTest, AnyNumberOfBoxes) {
  for (const size_t count : {0, 1, 2, 31, 32, 33, 255, 256, 511, 512, 513, 1023, 1025}) {
    for (const bool with_classes : {false, true}) {
      ExpectSameAsCpu(RandomBoxes(static_cast<uint32_t>(count), count, 20, with_classes), 0.45);
    }
  }
}

TEST_P(NmsCudaTest, ManyKeptBoxes) {
  const size_t count = rotated() ? 2500 : 12000;
  EXPECT_GT(ExpectSameAsCpu(RandomBoxes(1, count, rotated() ? 2000 : 3000), 0.6).size(), 1300U);
}

TEST_P(NmsCudaTest, EveryThreshold) {
  const Boxes boxes = RandomBoxes(2, 600, 30, true);
  for (const double threshold : {0.0, 1e-60, 0.1, 0.3, 0.45, 0.7, 0.99, 1.0}) {
    ExpectSameAsCpu(boxes, threshold);
  }
}

TEST_P(NmsCudaTest, StopsAtMaxDetections) {
  const Boxes boxes = RandomBoxes(3, rotated() ? 1500 : 5000, rotated() ? 1000 : 2500);
  for (const int64_t most : {0, 1, 31, 32, 33, 512, 700, 1024, 9999}) {
    ExpectSameAsCpu(boxes, 0.5, most);
  }
}

TEST_P(NmsCudaTest, TiesGoToTheLowerIndex) {
  Boxes boxes;
  const std::vector<float> box =
      rotated() ? std::vector<float>{3, 3, 4, 2, 1} : std::vector<float>{1, 1, 5, 5};
  for (int i = 0; i < 2100; ++i) {
    boxes.boxes.insert(boxes.boxes.end(), box.begin(), box.end());
    boxes.scores.push_back(0.5F);
  }
  EXPECT_EQ(ExpectSameAsCpu(boxes, 0.5), std::vector<int64_t>{0});
  const std::vector<int64_t> all = ExpectSameAsCpu(boxes, 1.0);
  ASSERT_EQ(all.size(), 2100U);
  EXPECT_TRUE(std::ranges::is_sorted(all));
}

// Each box suppresses the next, which would have suppressed the one after it.
TEST_P(NmsCudaTest, Chains) {
  Boxes boxes;
  for (int i = 0; i < 1500; ++i) {
    const auto x = static_cast<float>(4 * i);
    const std::vector<float> box =
        rotated() ? std::vector<float>{x, 0, 10, 10, 0} : std::vector<float>{x, 0, x + 10, 10};
    boxes.boxes.insert(boxes.boxes.end(), box.begin(), box.end());
    boxes.scores.push_back(1.0F - static_cast<float>(i) * 0x1p-12F);
  }
  EXPECT_GT(ExpectSameAsCpu(boxes, 0.4).size(), 0U);
}

TEST_P(NmsCudaTest, NumbersThatAreNotFinite) {
  std::mt19937 random(4);
  const std::vector<float> odd = {0, -0.0F, 1, 2, 1e-30F, 3e38F, -3e38F, 1e19F, kInf, -kInf, kNan};
  Boxes boxes = RandomBoxes(4, 900, 10);
  for (size_t i = 0; i < boxes.boxes.size(); i += 1 + random() % 3) {
    boxes.boxes[i] = odd[random() % odd.size()];
  }
  const std::vector<float> scores = {kInf, 0.0F, -0.0F, -3e38F, -kInf};
  std::ranges::copy(scores, boxes.scores.begin() + 20);
  for (const double threshold : {0.0, 0.4}) ExpectSameAsCpu(boxes, threshold);
}

TEST_P(NmsCudaTest, ANanScoreIsToldByTheCount) {
  for (const size_t place : {0, 513, 899}) {
    Boxes boxes = RandomBoxes(5, 900, 20);
    boxes.scores[place] = kNan;
    EXPECT_EQ(OnGpu(boxes, 0.5).first, -1);
  }
}

TEST_P(NmsCudaTest, RefusesWhatCannotBeRun) {
  const auto code = ErrorCode::kInvalidArgument;
  EXPECT_TRUE(Throws(code, "iou_threshold is 1.5", [] { OnGpu(RandomBoxes(6, 3, 1), 1.5); }));
  const OnDevice numbers(std::vector<float>(15));
  const OnDevice kept(std::vector<int64_t>(4));
  const auto run = [&](int64_t count, int64_t* to) {
    if (rotated()) {
      NmsRotatedCuda(numbers.get(), numbers.get(), nullptr, count, {0.5, -1, *GetParam()}, 0,
                     nullptr, to, kept.get() + 3);
    } else {
      NmsCuda(numbers.get(), numbers.get(), nullptr, count, {0.5, -1}, 0, nullptr, to,
              kept.get() + 3);
    }
  };
  auto* odd = reinterpret_cast<int64_t*>(reinterpret_cast<char*>(kept.get()) + 4);
  EXPECT_TRUE(Throws(code, "multiples of their elements' sizes", [&] { run(3, odd); }));
  EXPECT_TRUE(Throws(code, "at most", [&] { run(int64_t{1} << 31, kept.get()); }));
}

}  // namespace
}  // namespace endcap
