#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "endcap/box_decode.h"
#include "endcap/error.h"
#include "head_tensors.h"
#include "simd_targets.h"

namespace endcap {
namespace {

using testing::Floats;
using testing::ToHalves;
using testing::View;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// What BoxDecode gave: the candidates' bits, or the error's message.
struct Outcome {
  std::vector<uint32_t> bits;
  std::string error;
  bool operator==(const Outcome&) const = default;
};

Outcome Decode(const HeadParams& params, const ConstTensorView& head) {
  Candidates found;
  try {
    BoxDecode(params, {head}, found);
  } catch (const Error& error) {
    return {{}, error.what()};
  }
  Outcome outcome;
  const auto append = [&](const auto& values) {
    for (const auto value : values) outcome.bits.push_back(std::bit_cast<uint32_t>(value));
  };
  append(found.boxes_xyxy);
  append(found.scores);
  append(found.class_ids);
  append(found.indices);
  outcome.bits.push_back(found.truncated ? 1U : 0U);
  return outcome;
}

// Compares the implementations for both modes and activations; returns how many candidates there
// were in all.
size_t ExpectEqualImplementations(HeadParams params, const std::vector<float>& head,
                                  const std::vector<int64_t>& shape) {
  const std::vector<uint16_t> halves = ToHalves(head);
  size_t numbers = 0;
  for (const bool multi_label : {false, true}) {
    for (const Activation activation : {Activation::kNone, Activation::kSigmoid}) {
      params.multi_label = multi_label;
      params.activation = activation;
      for (const auto& view : {Floats(head, shape), View(halves, DType::kFloat16, shape)}) {
        testing::CompareTargetsWithScalar(
            Stage::kBoxDecode, [&] { return Decode(params, view); },
            [&](const Outcome& scalar, const Outcome& simd, const std::string& target) {
              EXPECT_EQ(scalar.error, simd.error) << target;
              EXPECT_EQ(scalar, simd)
                  << target << ", shape " << shape[0] << ", " << shape[1] << ", "
                  << DTypeName(view.dtype) << ", multi_label " << multi_label << ", activation "
                  << static_cast<int>(activation);
              numbers += scalar.bits.size() / 7;
            });
      }
    }
  }
  return numbers;
}

struct Head {
  HeadParams params;
  int64_t anchors;
  std::vector<float> values;

  bool is_yolov5() const { return params.family == HeadFamily::kYolov5; }
  std::vector<int64_t> shape() const {
    const int64_t classes = params.num_classes;
    return is_yolov5() ? std::vector{anchors, 5 + classes} : std::vector{4 + classes, anchors};
  }
  size_t ExpectEqualImplementations() const {
    return endcap::ExpectEqualImplementations(params, values, shape());
  }
};

// Numbers around 0, of which about `over` in 1 are scores over the threshold; `levels` of them, so
// that some are equal.
Head MakeHead(HeadFamily family, int64_t anchors, int classes, unsigned seed, double over,
              int levels = 1000) {
  Head head;
  head.params.family = family;
  head.params.num_classes = classes;
  head.anchors = anchors;
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> level(1, levels);
  std::bernoulli_distribution passes(over);
  const auto shape = head.shape();
  for (int64_t i = 0; i < shape[0] * shape[1]; ++i) {
    const float part = static_cast<float>(level(random)) / static_cast<float>(levels);
    head.values.push_back(passes(random) ? 0.25F + part : 0.25F - part);
  }
  return head;
}

class BoxDecodeSimd : public ::testing::TestWithParam<HeadFamily> {};

TEST_P(BoxDecodeSimd, EqualsScalarAroundVectorLengths) {
  for (const int classes : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33}) {
    for (const int64_t anchors : {0, 1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 65, 130}) {
      const Head head = MakeHead(GetParam(), anchors, classes, 1, 0.2);
      const size_t found = head.ExpectEqualImplementations();
      EXPECT_TRUE(found > 0 || anchors * classes < 20);
    }
  }
}

TEST_P(BoxDecodeSimd, EqualsScalarBeyondATile) {
  for (const int64_t anchors : {2047, 2048, 2049, 4100}) {
    for (const double over : {0.0, 0.001, 0.3}) {
      MakeHead(GetParam(), anchors, 11, 2, over).ExpectEqualImplementations();
    }
  }
}

TEST_P(BoxDecodeSimd, EqualsScalarOnTies) {
  for (const int levels : {1, 2, 5}) {
    MakeHead(GetParam(), 200, 20, 3, 0.5, levels).ExpectEqualImplementations();
  }
}

TEST_P(BoxDecodeSimd, EqualsScalarWhenCandidatesAreCut) {
  for (const int limit : {1, 2, 100, 5000, 9000}) {
    for (const int levels : {1, 3, 100000}) {
      Head head = MakeHead(GetParam(), 1200, 9, 4, 0.95, levels);
      head.params.max_candidates = limit;
      head.ExpectEqualImplementations();
    }
  }
}

TEST_P(BoxDecodeSimd, EqualsScalarAtEveryThreshold) {
  for (const double threshold : {0.0, 1e-40, 1e-7, 0.001, 0.25, 0.5, 0.5622, 0.75, 0.999999, 1.0}) {
    Head head = MakeHead(GetParam(), 200, 5, 5, 0.5);
    head.params.score_threshold = threshold;
    const auto logit = static_cast<float>(std::log(threshold / (1.0 - threshold)));
    for (size_t i = 0; i < head.values.size(); i += 3) {
      const float edge = i % 2 == 0 ? static_cast<float>(threshold) : logit;
      if (std::isfinite(edge)) head.values[i] = std::nextafter(edge, i % 4 < 2 ? 9.0F : -9.0F);
    }
    head.ExpectEqualImplementations();
  }
}

TEST_P(BoxDecodeSimd, NamesTheSameNanAnywhere) {
  const Head clean = MakeHead(GetParam(), 70, 9, 6, 0.2);
  for (size_t place = 0; place < clean.values.size(); ++place) {
    Head head = clean;
    head.values[place] = kNan;
    if (place % 2 == 0) head.values.back() = kNan;
    head.params.multi_label = place % 3 == 0;
    const auto view = Floats(head.values, head.shape());
    testing::CompareTargetsWithScalar(
        Stage::kBoxDecode, [&] { return Decode(head.params, view); },
        [&](const Outcome& scalar, const Outcome& simd, const std::string& target) {
          EXPECT_EQ(scalar.error, "head is NaN at element " + std::to_string(place));
          EXPECT_EQ(scalar.error, simd.error) << target;
        });
  }
}

TEST_P(BoxDecodeSimd, EqualsScalarOnInfinitiesAndZeros) {
  std::mt19937 random(7);
  const std::vector<float> odd = {kInf, -kInf, 0.0F, -0.0F, 1e38F, -1e38F, 1e-40F, -1.0F, -90.0F};
  std::uniform_int_distribution<size_t> pick(0, odd.size() - 1);
  for (unsigned round = 0; round < 300; ++round) {
    Head head = MakeHead(GetParam(), 1 + round % 40, 1 + static_cast<int>(round) % 11, round, 0.1);
    std::uniform_int_distribution<size_t> place(0, head.values.size() - 1);
    for (unsigned i = 0; i < round % 5; ++i) head.values[place(random)] = odd[pick(random)];
    head.params.score_threshold = round % 2 == 0 ? 0.0 : 0.25;
    head.ExpectEqualImplementations();
  }
}

// Every finite value, infinity and NaN of binary16 as the one score of an anchor.
TEST(BoxDecodeSimdHalves, EveryHalfIsReadAlike) {
  HeadParams params;
  params.num_classes = 1;
  params.score_threshold = 0.0;
  params.max_candidates = 1 << 16;
  for (const bool with_odd : {false, true}) {
    const size_t anchors = with_odd ? 0x10000 : 0x7C00;
    std::vector<uint16_t> halves(5 * anchors, 0x3C00);
    for (size_t i = 0; i < anchors; ++i) halves[4 * anchors + i] = static_cast<uint16_t>(i);
    const auto view = View(halves, DType::kFloat16, {5, static_cast<int64_t>(anchors)});
    testing::CompareTargetsWithScalar(
        Stage::kBoxDecode, [&] { return Decode(params, view); },
        [&](const Outcome& scalar, const Outcome& simd, const std::string& target) {
          EXPECT_EQ(scalar, simd) << target;
          EXPECT_EQ(scalar.error.empty(), !with_odd);
        });
  }
}

INSTANTIATE_TEST_SUITE_P(Families, BoxDecodeSimd,
                         ::testing::Values(HeadFamily::kYolov8, HeadFamily::kYolov5),
                         [](const auto& family) {
                           return std::string(HeadFamilyName(family.param));
                         });

}  // namespace
}  // namespace endcap
