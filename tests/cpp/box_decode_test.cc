// Raw heads by every target against the scalar implementation, whose candidates
// tests/python/core holds to the reference.

#include "endcap/box_decode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "box_decode/score_rows.h"
#include "common/half.h"
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

Outcome Decode(const HeadParams& params, const std::vector<ConstTensorView>& head) {
  static Candidates found;  // what the last call left in it is replaced
  try {
    BoxDecode(params, head, found);
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
  outcome.bits.push_back(static_cast<uint32_t>(found.dropped));
  return outcome;
}

// Compares the implementations for both modes and activations, and where one fails, with on_nan
// kDrop, too; returns how many candidates there were in all.
size_t ExpectEqualImplementations(HeadParams params, const std::vector<float>& head,
                                  const std::vector<int64_t>& shape) {
  const std::vector<uint16_t> halves = ToHalves(head);
  size_t numbers = 0;
  for (const bool multi_label : {false, true}) {
    for (const Activation activation : {Activation::kNone, Activation::kSigmoid}) {
      params.multi_label = multi_label;
      params.activation = activation;
      for (const auto& view : {Floats(head, shape), View(halves, DType::kFloat16, shape)}) {
        bool fails = false;
        const auto compare = [&](const Outcome& scalar, const Outcome& simd,
                                 const std::string& target) {
          EXPECT_EQ(scalar.error, simd.error) << target;
          EXPECT_EQ(scalar, simd) << target << ", shape " << shape[0] << ", " << shape[1] << ", "
                                  << DTypeName(view.dtype) << ", multi_label " << multi_label
                                  << ", activation " << static_cast<int>(activation);
          numbers += scalar.bits.size() / 7;
          fails |= !scalar.error.empty();
        };
        testing::CompareTargetsWithScalar(
            Stage::kBoxDecode, [&] { return Decode(params, {view}); }, compare);
        if (!fails) continue;
        HeadParams dropping = params;
        dropping.on_nan = OnNan::kDrop;
        testing::CompareTargetsWithScalar(
            Stage::kBoxDecode, [&] { return Decode(dropping, {view}); }, compare);
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

void ExpectEqualOutcomes(const HeadParams& params, const ConstTensorView& view,
                         const std::string& what) {
  testing::CompareTargetsWithScalar(
      Stage::kBoxDecode, [&] { return Decode(params, {view}); },
      [&](const Outcome& scalar, const Outcome& simd, const std::string& target) {
        EXPECT_EQ(scalar.error, simd.error) << target << ", " << what;
        EXPECT_EQ(scalar, simd) << target << ", " << what;
      });
}

// Heads of several blocks of every target's scan, in most of which no score passes.
constexpr int64_t kManyAnchors = 1300;

// A score that is the limit, and its neighbours, at any place of a head of no other candidates.
TEST_P(BoxDecodeSimd, FindsTheOneScoreOverTheThreshold) {
  for (const double threshold : {0.0, 1e-40, 1e-7, 0.25, 0.5, 0.75, 1.0}) {
    for (const Activation activation : {Activation::kNone, Activation::kSigmoid}) {
      Head head = MakeHead(GetParam(), kManyAnchors, 2, 12, 0.0);
      head.params.score_threshold = threshold;
      head.params.activation = activation;
      const bool is_sigmoid = activation == Activation::kSigmoid;
      const auto limit =
          static_cast<float>(is_sigmoid ? std::log(threshold / (1.0 - threshold)) : threshold);
      if (!std::isfinite(limit)) continue;
      const float low = is_sigmoid ? std::min(limit, 0.0F) - 3.0F : -0.0F;
      const std::vector<float> near = {limit, std::nextafter(limit, kInf),
                                       std::nextafter(limit, -kInf)};
      const uint16_t half = FloatToHalf(limit);
      for (int64_t a = 0; a < kManyAnchors; a += 13) {
        std::vector<float> values(head.values.size(), low);
        const int64_t place = head.is_yolov5() ? a * 7 + 5 + a % 2 : (4 + a % 2) * head.anchors + a;
        if (head.is_yolov5()) values[static_cast<size_t>(a * 7 + 4)] = is_sigmoid ? 40.0F : 1.0F;
        values[static_cast<size_t>(place)] = near[static_cast<size_t>(a) % near.size()];
        const std::string what = "threshold " + std::to_string(threshold) + ", sigmoid " +
                                 std::to_string(is_sigmoid) + ", anchor " + std::to_string(a);
        ExpectEqualOutcomes(head.params, Floats(values, head.shape()), what);
        std::vector<uint16_t> halves = ToHalves(values);
        halves[static_cast<size_t>(place)] = static_cast<uint16_t>(half + a % 3);
        ExpectEqualOutcomes(head.params, View(halves, DType::kFloat16, head.shape()), what);
      }
    }
  }
}

// NaN with either sign, quiet and signalling, where no score passes.
TEST_P(BoxDecodeSimd, NamesEveryNan) {
  const Head clean = MakeHead(GetParam(), kManyAnchors, 2, 13, 0.0);
  const auto expect_error = [&](const HeadParams& params, const ConstTensorView& view,
                                size_t place) {
    testing::CompareTargetsWithScalar(
        Stage::kBoxDecode, [&] { return Decode(params, {view}); },
        [&](const Outcome& scalar, const Outcome& simd, const std::string& target) {
          EXPECT_EQ(scalar.error, "head is NaN at element " + std::to_string(place));
          EXPECT_EQ(scalar.error, simd.error) << target;
        });
  };
  const std::vector<uint32_t> bits = {0x7FC00000, 0xFFC00000, 0x7F800001, 0xFF800001, 0xFFFFFFFF};
  const std::vector<uint16_t> half_bits = {0x7E00, 0xFE00, 0x7C01, 0xFC01, 0xFFFF};
  for (size_t place = 0; place < clean.values.size(); place += 19) {
    HeadParams params = clean.params;
    params.multi_label = place % 3 == 0;
    params.activation = place % 2 == 0 ? Activation::kNone : Activation::kSigmoid;
    std::vector<float> values = clean.values;
    values[place] = std::bit_cast<float>(bits[place % bits.size()]);
    expect_error(params, Floats(values, clean.shape()), place);
    std::vector<uint16_t> halves = ToHalves(clean.values);
    halves[place] = half_bits[place % half_bits.size()];
    expect_error(params, View(halves, DType::kFloat16, clean.shape()), place);
  }
}

// Every number of binary16 alone among scores that do not pass.
TEST(BoxDecodeSimdHalves, EveryHalfAloneIsReadAlike) {
  constexpr size_t kSpace = 256;  // a block of a scan, for the widest vectors
  constexpr size_t kAnchors = 16 * kSpace;
  HeadParams params;
  params.num_classes = 16;
  for (const Activation activation : {Activation::kNone, Activation::kSigmoid}) {
    params.activation = activation;
    const uint16_t low = activation == Activation::kNone ? 0x2C00 : 0xC500;  // 0.0625, -5
    uint32_t next = 0;
    while (next < 0x10000) {
      std::vector<uint16_t> halves(20 * kAnchors, low);
      for (size_t place = 4 * kAnchors; place < halves.size() && next < 0x10000; ++next) {
        if ((next & 0x7FFFU) > 0x7C00U) continue;  // NaN
        halves[place + next * 37 % kSpace] = static_cast<uint16_t>(next);
        place += kSpace;
      }
      ExpectEqualOutcomes(params, View(halves, DType::kFloat16, {20, kAnchors}),
                          "before " + std::to_string(next));
    }
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
        Stage::kBoxDecode, [&] { return Decode(params, {view}); },
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

// Heads of rows with scores in a tensor of their own, or behind the boxes.
struct ScoreRowHead {
  HeadParams params;
  int64_t rows = 0;
  std::vector<float> scores, boxes, anchors;

  int64_t columns() const {
    return params.num_classes + (params.ResolvedBackground() == Background::kNone ? 0 : 1);
  }

  Outcome Decode() const {
    std::vector<ConstTensorView> views = {testing::Floats(scores, {rows, columns()}),
                                          testing::Floats(boxes, {rows, 4})};
    if (params.family == HeadFamily::kSsd) {
      std::swap(views[0], views[1]);
      views.push_back(testing::Floats(anchors, {rows, 4}));
    }
    return endcap::Decode(params, views);
  }

  // How many candidates the scalar implementation found.
  size_t ExpectEqualImplementations() const {
    size_t found = 0;
    bool fails = false;
    testing::CompareTargetsWithScalar(
        Stage::kBoxDecode, [&] { return Decode(); },
        [&](const Outcome& scalar, const Outcome& simd, const std::string& target) {
          EXPECT_EQ(scalar.error, simd.error) << target;
          EXPECT_EQ(scalar, simd) << target << ", " << rows << " rows of " << columns();
          found = scalar.bits.size() / 7;
          fails |= !scalar.error.empty();
        });
    if (!fails || params.on_nan == OnNan::kDrop) return found;
    auto dropping = *this;
    dropping.params.on_nan = OnNan::kDrop;
    dropping.ExpectEqualImplementations();
    return found;
  }
};

ScoreRowHead MakeScoreRowHead(HeadFamily family, int64_t rows, int classes, Background background,
                              Activation activation, unsigned seed) {
  ScoreRowHead head;
  head.params.family = family;
  head.params.num_classes = classes;
  head.params.background = background;
  head.params.activation = activation;
  head.rows = rows;
  std::mt19937 random(seed);
  std::normal_distribution<float> number(0.0F, 2.0F);
  const auto fill = [&](std::vector<float>& values, int64_t count) {
    for (int64_t i = 0; i < count; ++i) values.push_back(number(random));
  };
  fill(head.scores, rows * head.columns());
  fill(head.boxes, rows * 4);
  fill(head.anchors, rows * 4);
  return head;
}

class ScoreRowsSimd
    : public ::testing::TestWithParam<std::tuple<HeadFamily, Background, Activation>> {
 protected:
  static ScoreRowHead Make(int64_t rows, int classes, unsigned seed) {
    const auto [family, background, activation] = GetParam();
    return MakeScoreRowHead(family, rows, classes, background, activation, seed);
  }
};

TEST_P(ScoreRowsSimd, EqualsScalarAroundVectorLengths) {
  for (const int classes : {1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 33}) {
    for (const int64_t rows : {0, 1, 5, 40}) {
      for (const bool multi_label : {true, false}) {
        ScoreRowHead head = Make(rows, classes, 1);
        head.params.multi_label = multi_label;
        const size_t found = head.ExpectEqualImplementations();
        EXPECT_TRUE(found > 0 || rows < 40) << classes;
      }
    }
  }
}

// The scan must not miss a row whose score is a bit above the threshold: every score that occurs,
// and its neighbours, as the threshold.
TEST_P(ScoreRowsSimd, KeepsScoresThatAreJustOverTheThreshold) {
  ScoreRowHead head = Make(40, 2, 3);
  head.params.score_threshold = 0.0;
  head.params.max_candidates = 1000;
  for (float& score : head.scores) score *= 4.0F;
  const std::vector<uint32_t> bits = head.Decode().bits;
  const size_t count = bits.size() / 7;
  ASSERT_GT(count, 20U);
  for (size_t i = 0; i < count; ++i) {
    const auto score = std::bit_cast<float>(bits[4 * count + i]);
    for (const float threshold : {std::nextafter(score, 0.0F), score}) {
      if (threshold > 1.0F || threshold < 0.0F) continue;
      head.params.score_threshold = threshold;
      const size_t found = head.ExpectEqualImplementations();
      EXPECT_TRUE(found >= 1U || threshold >= score);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ScoreRowsSimd,
    ::testing::Combine(::testing::Values(HeadFamily::kRtdetr, HeadFamily::kSsd),
                       ::testing::Values(Background::kNone, Background::kFirst, Background::kLast),
                       ::testing::Values(Activation::kNone, Activation::kSigmoid,
                                         Activation::kSoftmax)));

// Nothing may be added to a null pointer, not even to form one that is never read.
TEST(ScoreRows, WithoutRowsHaveNoAddress) {
  HeadParams params;
  params.family = HeadFamily::kSsd;
  params.num_classes = 3;
  params.background = Background::kFirst;
  std::vector<float> memory;
  const TensorSpec spec{"scores", DType::kFloat32, {-1, 8}, 2};
  ConstTensorView view;
  view.rank = 2;
  view.shape = {0, 8};
  const HeadInput head(spec, view, memory);
  EXPECT_EQ(ScoreRows(params, head, 4).first, nullptr);
  const std::vector<float> values(16);
  const HeadInput rows(spec, Floats(values, {2, 8}), memory);
  EXPECT_EQ(ScoreRows(params, rows, 4).first, values.data() + 5);
}

}  // namespace
}  // namespace endcap
