#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "endcap/box_decode.h"
#include "endcap/error.h"
#include "head_tensors.h"
#include "simd_targets.h"

namespace endcap {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// What BoxDecode gave: the candidates' bits, or the error's message.
struct Outcome {
  std::vector<uint32_t> bits;
  std::string error;
  bool operator==(const Outcome&) const = default;
};

struct Head {
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
    Candidates found;
    try {
      BoxDecode(params, views, found);
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

Head MakeHead(HeadFamily family, int64_t rows, int classes, Background background,
              Activation activation, unsigned seed) {
  Head head;
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
  static Head Make(int64_t rows, int classes, unsigned seed) {
    const auto [family, background, activation] = GetParam();
    return MakeHead(family, rows, classes, background, activation, seed);
  }
};

TEST_P(ScoreRowsSimd, EqualsScalarAroundVectorLengths) {
  for (const int classes : {1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 33}) {
    for (const int64_t rows : {0, 1, 5, 40}) {
      for (const bool multi_label : {true, false}) {
        Head head = Make(rows, classes, 1);
        head.params.multi_label = multi_label;
        const size_t found = head.ExpectEqualImplementations();
        EXPECT_TRUE(found > 0 || rows < 40) << classes;
      }
    }
  }
}

TEST_P(ScoreRowsSimd, EqualsScalarAtEveryThreshold) {
  for (const double threshold : {0.0, 1e-30, 0.001, 0.05, 0.3, 0.5, 0.7, 0.95, 0.999999, 1.0}) {
    Head head = Make(300, 5, 2);
    head.params.score_threshold = threshold;
    head.ExpectEqualImplementations();
    head.params.max_candidates = 20;
    head.ExpectEqualImplementations();
  }
}

// The scan must not miss a row whose score is a bit above the threshold: every score that occurs,
// and its neighbours, as the threshold.
TEST_P(ScoreRowsSimd, KeepsScoresThatAreJustOverTheThreshold) {
  Head head = Make(40, 2, 3);
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

TEST_P(ScoreRowsSimd, EqualsScalarForNumbersThatAreNotFinite) {
  for (const float value : {kInf, -kInf, kNan}) {
    for (const size_t at : {0U, 7U, 55U, 119U}) {
      Head head = Make(20, 5, 4);
      head.scores[std::min(at, head.scores.size() - 1)] = value;
      head.ExpectEqualImplementations();
      Head box = Make(20, 5, 4);
      box.boxes[std::min<size_t>(at, 79)] = value;
      box.ExpectEqualImplementations();
    }
    Head row = Make(20, 5, 5);
    for (int64_t i = 0; i < row.columns(); ++i) {
      row.scores[static_cast<size_t>(7 * row.columns() + i)] = value;
    }
    row.ExpectEqualImplementations();
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ScoreRowsSimd,
    ::testing::Combine(::testing::Values(HeadFamily::kRtdetr, HeadFamily::kSsd),
                       ::testing::Values(Background::kNone, Background::kFirst, Background::kLast),
                       ::testing::Values(Activation::kNone, Activation::kSigmoid,
                                         Activation::kSoftmax)));

}  // namespace
}  // namespace endcap
