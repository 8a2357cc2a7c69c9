#pragma once

#include <algorithm>
#include <numeric>

#include "agreement.h"

namespace endcap::fuzz {

// Boxes with scores and perhaps classes.
struct BoxSet {
  std::vector<float> boxes;
  std::vector<float> scores;
  std::vector<int32_t> class_ids;

  int32_t GetClass(int64_t i) const {
    return class_ids.empty() ? 0 : class_ids[static_cast<size_t>(i)];
  }
};

// The definition: the best first, and a box goes when a better one of its class overlaps it too
// much: one that was kept or, unless `greedy`, any.
template <typename Options, typename Iou>
std::vector<int64_t> SlowNms(const BoxSet& crowd, const Options& options, bool greedy, Iou iou) {
  std::vector<int64_t> order(crowd.scores.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return crowd.scores[static_cast<size_t>(a)] > crowd.scores[static_cast<size_t>(b)];
  });
  std::vector<int64_t> kept;
  std::vector<int64_t> better;
  for (const int64_t i : order) {
    if (options.max_detections >= 0 && std::ssize(kept) >= options.max_detections) break;
    const auto& others = greedy ? kept : better;
    const bool suppressed = std::any_of(others.begin(), others.end(), [&](int64_t k) {
      return crowd.GetClass(k) == crowd.GetClass(i) && double{iou(k, i)} > options.iou_threshold;
    });
    better.push_back(i);
    if (!suppressed) kept.push_back(i);
  }
  return kept;
}

inline double PickThreshold(FuzzInput& input) {
  if (input.Bool()) return input.Number(0.0, 1.0);
  return input.Pick(std::array{0.0, 1e-12, 5e-4, 0.1, 1.0 / 3.0, 0.5, 0.7, 0.95, 1.0});
}

namespace crowd_parts {

inline BoxSet MakeScores(FuzzInput& input, Noise& noise, int most) {
  BoxSet crowd;
  // Mostly few: suppression takes the square of their number.
  crowd.scores.resize(input.Size(static_cast<size_t>(input.Happens(32) ? most : most / 4)));
  const int score_steps = input.Pick(std::array{1, 7, 255, 1 << 20});
  for (float& score : crowd.scores) score = noise.Number(0.0, 1.0, score_steps);
  if (input.Happens(64)) Disturb(input, crowd.scores);
  const int classes = input.Int(0, 5);
  if (classes == 0) return crowd;
  for (size_t i = 0; i < crowd.scores.size(); ++i) {
    crowd.class_ids.push_back(noise.Below(classes));
  }
  if (input.Happens(16) && !crowd.class_ids.empty()) {
    crowd.class_ids[input.Size(crowd.class_ids.size() - 1)] =
        static_cast<int32_t>(static_cast<uint32_t>(input.Word(4)));
  }
  return crowd;
}

}  // namespace crowd_parts

// boxes [N][4]: x1, y1, x2, y2.
inline BoxSet MakeAxisAlignedBoxes(FuzzInput& input, int most) {
  Noise noise(input.Word(2));
  BoxSet crowd = crowd_parts::MakeScores(input, noise, most);
  const double span = input.Pick(std::array{4.0, 64.0, 640.0, 1e6});
  const double side = span * input.Number(0.0, 1.0);
  const int steps = input.Pick(std::array{4, 31, 1000, 1 << 20});
  for (size_t i = 0; i < crowd.scores.size(); ++i) {
    const float x = noise.Number(-span, span, steps);
    const float y = noise.Number(-span, span, steps);
    const float right = x + noise.Number(0.0, side, steps);
    const float bottom = y + noise.Number(0.0, side, steps);
    crowd.boxes.insert(crowd.boxes.end(), {x, y, right, bottom});
  }
  if (input.Bool()) Disturb(input, crowd.boxes);
  return crowd;
}

// boxes [N][5]: centre, width, height, angle in radians.
inline BoxSet MakeRotatedBoxes(FuzzInput& input, int most) {
  Noise noise(input.Word(2));
  BoxSet crowd = crowd_parts::MakeScores(input, noise, most);
  const double span = input.Pick(std::array{4.0, 64.0, 640.0, 1e6});
  const double side = span * input.Number(0.0, 1.0);
  const double turn = input.Pick(std::array{0.0, 1.5707963267948966, 3.2, 100.0});
  const int steps = input.Pick(std::array{4, 31, 1000, 1 << 20});
  for (size_t i = 0; i < crowd.scores.size(); ++i) {
    for (int axis = 0; axis < 2; ++axis) crowd.boxes.push_back(noise.Number(-span, span, steps));
    for (int axis = 0; axis < 2; ++axis) crowd.boxes.push_back(noise.Number(0.0, side, steps));
    crowd.boxes.push_back(noise.Number(-turn, turn, steps));
  }
  if (input.Bool()) Disturb(input, crowd.boxes);
  return crowd;
}

// Requires of suppress(boxes, scores, class ids, kept, count), with arrays on the GPU, what the CPU
// keeps; a count of -1 tells of a score that is NaN.
template <typename Suppress>
void RequireSameOnGpu(const Outcome& expected, const BoxSet& crowd, const Suppress& suppress) {
  if (!HasGpu()) return;
  const Outcome outcome = Capture([&](Outcome& result) {
    const OnGpu boxes(crowd.boxes);
    const OnGpu scores(crowd.scores);
    const OnGpu classes(crowd.class_ids);
    const OnGpu kept(std::vector<int64_t>(crowd.scores.size(), -7));
    const OnGpu count(std::vector<int64_t>{-7});
    suppress(boxes.get(), scores.get(), crowd.class_ids.empty() ? nullptr : classes.get(),
             kept.get(), count.get());
    const int64_t found = count.Read()[0];
    if (found == -1) throw Error(expected.code, expected.message);
    const std::vector<int64_t> indices = kept.Read();
    Require(found >= 0 && found <= std::ssize(indices), found, " boxes are kept");
    result.Add(indices.data(), static_cast<size_t>(found));
  });
  RequireEqual(expected, outcome, "scalar against cuda");
}

}  // namespace endcap::fuzz
