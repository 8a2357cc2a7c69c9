#pragma once

#include <optional>
#include <vector>

#include "box_decode/families.h"
#include "detection_harness.h"

// Heads of rtdetr and ssd, whose scores can be spoilt one by one.

namespace endcap::testing {

struct ScoreRowHead {
  PostprocessParams params;
  int64_t rows = 0;
  std::vector<float> scores, boxes, anchors;

  int64_t columns() const { return ScoreColumns(params.head); }
  float& Score(int64_t row, int64_t column) {
    return scores[static_cast<size_t>(row * columns() + column)];
  }

  // The tensors in the order of HeadInputs.
  TestImage Image(bool half = false) const {
    const HeadParams& head = params.head;
    TestImage image;
    const TestTensor score_tensor = FloatTensor(scores, {rows, columns()}, half);
    const TestTensor box_tensor = FloatTensor(boxes, {rows, 4}, half);
    if (head.family == HeadFamily::kSsd) {
      image.head = {box_tensor, score_tensor};
      if (head.anchors == AnchorSource::kInput) {
        image.head.push_back(FloatTensor(anchors, {rows, 4}, half));
      }
    } else if (head.joined) {
      image.head = {FloatTensor(Joined(), {rows, 4 + columns()}, half)};
    } else {
      image.head = {score_tensor, box_tensor};
    }
    return image;
  }

 private:
  std::vector<float> Joined() const {
    std::vector<float> joined;
    const auto append = [&](const std::vector<float>& from, int64_t row, int64_t length) {
      joined.insert(joined.end(), from.begin() + row * length, from.begin() + (row + 1) * length);
    };
    for (int64_t row = 0; row < rows; ++row) {
      append(boxes, row, 4);
      append(scores, row, columns());
    }
    return joined;
  }
};

// Raw scores on a grid, so that many are equal; a background is mostly the greatest, and some rows
// have a class that stands out. Boxes suit the way that they are read.
inline ScoreRowHead MakeScoreRows(const PostprocessParams& params, int64_t rows, uint32_t seed) {
  ScoreRowHead head = {params, rows, {}, {}, {}};
  RandomHead random(seed);
  const Background background = params.head.ResolvedBackground();
  const int64_t no_object = background == Background::kFirst ? 0 : params.head.num_classes;
  const bool raw = params.head.ResolvedActivation() == Activation::kNone;
  const bool offsets =
      params.head.family == HeadFamily::kSsd && params.head.anchors != AnchorSource::kNone;
  const bool normalized = params.head.ResolvedBoxUnit() == BoxUnit::kNormalized;
  const float unit_x = normalized ? static_cast<float>(params.head.input_width) : 1.0F;
  const float unit_y = normalized ? static_cast<float>(params.head.input_height) : 1.0F;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < head.columns(); ++column) {
      const bool is_background = background != Background::kNone && column == no_object;
      const float score = std::floor(random.Uniform(-24.0F, 8.0F)) / 4.0F;
      head.scores.push_back(raw ? random.Score() : score + (is_background ? 5.0F : 0.0F));
    }
    if (!raw && random.Uniform(0.0F, 1.0F) < 0.3F) {
      const auto column =
          static_cast<int64_t>(random.Uniform(0.0F, 1.0F) * static_cast<float>(head.columns()));
      head.Score(row, std::min(column, head.columns() - 1)) += 7.0F;
    }
    const auto [cx, cy, w, h] = random.Box();
    const std::vector<float> corners = {(cx - w / 2) / unit_x, (cy - h / 2) / unit_y,
                                        (cx + w / 2) / unit_x, (cy + h / 2) / unit_y};
    const std::vector<float> moves = {random.Uniform(-3.0F, 3.0F), random.Uniform(-3.0F, 3.0F),
                                      random.Uniform(-3.0F, 3.0F), random.Uniform(-3.0F, 3.0F)};
    const auto& box = offsets ? moves : corners;
    head.boxes.insert(head.boxes.end(), box.begin(), box.end());
    head.anchors.insert(head.anchors.end(), corners.begin(), corners.end());
  }
  return head;
}

inline PostprocessParams ScoreRowParams(HeadFamily family, int classes) {
  PostprocessParams params;
  params.head.family = family;
  params.head.num_classes = classes;
  params.max_detections = 50;
  params.head.score_threshold = 0.2;
  return params;
}

}  // namespace endcap::testing
