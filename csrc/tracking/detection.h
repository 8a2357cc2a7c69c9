#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace endcap {

// Sides of a box, in pixels.
struct Corners {
  double x1, y1, x2, y2;

  double cx() const { return (x1 + x2) / 2.0; }
  double cy() const { return (y1 + y2) / 2.0; }
  double area() const { return (x2 - x1) * (y2 - y1); }
};

inline Corners BoxAround(double cx, double cy, double width, double height) {
  return {cx - width / 2.0, cy - height / 2.0, cx + width / 2.0, cy + height / 2.0};
}

inline double Iou(const Corners& a, const Corners& b) {
  const double width = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  const double height = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  if (!(width > 0.0) || !(height > 0.0)) return 0.0;
  const double common = width * height;
  return common / (a.area() + b.area() - common);
}

// Comparisons of single precision, as NumPy makes them of float32 arrays.
inline double RoundToFloat(double value) { return static_cast<float>(value); }
inline bool AtLeast(double value, double threshold) {
  return static_cast<float>(value) >= static_cast<float>(threshold);
}

// A detection of the frame; its box has an area.
struct Detection {
  Corners corners;
  double score;
  int32_t class_id;
  int32_t index;  // in the caller's arrays
};

// Pairs of boxes that overlap, without a look at most of those that do not: detections are sorted
// by their left side, so that a box is compared with those only that begin left of its right side,
// and not further left than the widest reaches.
class Overlaps {
 public:
  void SetDetections(std::span<const Detection> detections) {
    detections_ = detections;
    by_left_.clear();
    widest_ = 0.0;
    for (size_t i = 0; i < detections.size(); ++i) {
      const Corners& corners = detections[i].corners;
      by_left_.emplace_back(corners.x1, static_cast<int32_t>(i));
      widest_ = std::max(widest_, corners.x2 - corners.x1);
    }
    std::sort(by_left_.begin(), by_left_.end());
  }

  // Calls use(number of the detection, IoU) for each detection that overlaps the box.
  template <typename Use>
  void Find(const Corners& box, const Use& use) const {
    auto next =
        std::lower_bound(by_left_.begin(), by_left_.end(), std::pair{box.x1 - widest_, int32_t{0}});
    for (; next != by_left_.end() && next->first < box.x2; ++next) {
      const double iou = Iou(box, detections_[static_cast<size_t>(next->second)].corners);
      if (iou > 0.0) use(next->second, iou);
    }
  }

 private:
  std::span<const Detection> detections_;
  std::vector<std::pair<double, int32_t>> by_left_;
  double widest_ = 0.0;
};

}  // namespace endcap
