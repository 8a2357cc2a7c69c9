#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "tracking/detection.h"

namespace endcap {

// Kalman filter of a number that changes with constant velocity. Filters of boxes are some of
// these: transition and noise join a number with its own velocity alone.
struct MovingNumber {
  double value, velocity;
  double value_variance, covariance, velocity_variance;

  // To the next frame, with the variances that a frame adds.
  void Predict(double value_noise, double velocity_noise) {
    value += velocity;
    value_variance += 2.0 * covariance + velocity_variance + value_noise;
    covariance += velocity_variance;
    velocity_variance += velocity_noise;
  }

  // Takes in a measurement with its variance. The textbook's forms are written so that no variance
  // is rounded to less than 0.
  void Correct(double seen, double noise) {
    const double variance = value_variance + noise;
    const double value_gain = value_variance / variance;
    const double velocity_gain = covariance / variance;
    const double difference = seen - value;
    value += value_gain * difference;
    velocity += velocity_gain * difference;
    velocity_variance = std::max(velocity_variance - velocity_gain * covariance, 0.0);
    covariance *= noise / variance;
    value_variance *= noise / variance;
  }
};

// Filter of ByteTrack: centre, width over height, and height, with the noise of DeepSORT (arXiv
// 1703.07402), whose deviations are parts of the box's height.
class AspectMotion {
 public:
  using Numbers = std::array<MovingNumber, 4>;

  AspectMotion() = default;
  explicit AspectMotion(const Numbers& numbers) : numbers_(numbers) {}
  // A box that is seen for the first time.
  explicit AspectMotion(const Corners& box) {
    const auto values = Measure(box);
    for (size_t i = 0; i < 4; ++i) {
      const double place = 2.0 * kPlace * values[kHeight];
      const double speed = 10.0 * kSpeed * values[kHeight];
      const bool is_aspect = i == kAspect;
      numbers_[i] = {values[i], 0.0, Square(is_aspect ? 1e-2 : place), 0.0,
                     Square(is_aspect ? 1e-5 : speed)};
    }
  }

  void Predict() {
    const double height = numbers_[kHeight].value;
    for (size_t i = 0; i < 4; ++i) {
      const bool is_aspect = i == kAspect;
      numbers_[i].Predict(Square(is_aspect ? 1e-2 : kPlace * height),
                          Square(is_aspect ? 1e-5 : kSpeed * height));
    }
  }

  void Correct(const Corners& seen) {
    const auto values = Measure(seen);
    const double height = numbers_[kHeight].value;
    for (size_t i = 0; i < 4; ++i) {
      numbers_[i].Correct(values[i], Square(i == kAspect ? 1e-1 : kPlace * height));
    }
  }

  // The height of a box that is not seen does not grow on and on.
  void StopHeight() { numbers_[kHeight].velocity = 0.0; }

  Corners box() const {
    const double height = numbers_[kHeight].value;
    const double half_width = numbers_[kAspect].value * height / 2.0;
    const double cx = numbers_[0].value;
    const double cy = numbers_[1].value;
    return {cx - half_width, cy - height / 2.0, cx + half_width, cy + height / 2.0};
  }
  const Numbers& numbers() const { return numbers_; }

 private:
  static constexpr double kPlace = 1.0 / 20.0;
  static constexpr double kSpeed = 1.0 / 160.0;
  static constexpr size_t kAspect = 2;
  static constexpr size_t kHeight = 3;

  static double Square(double value) { return value * value; }
  static std::array<double, 4> Measure(const Corners& box) {
    const double width = box.x2 - box.x1;
    const double height = box.y2 - box.y1;
    return {box.x1 + width / 2.0, box.y1 + height / 2.0, width / height, height};
  }

  Numbers numbers_{};
};

// Filter of the four sides, with the noise of Roboflow's ByteTrack: the same for boxes of all
// sizes.
class SideMotion {
 public:
  using Numbers = std::array<MovingNumber, 4>;

  SideMotion() = default;
  explicit SideMotion(const Numbers& numbers) : numbers_(numbers) {}
  explicit SideMotion(const Corners& box) {
    const std::array sides = {box.x1, box.y1, box.x2, box.y2};
    for (size_t i = 0; i < 4; ++i) numbers_[i] = {sides[i], 0.0, 1.0, 0.0, 1.0};
  }

  void Predict() {
    for (MovingNumber& number : numbers_) number.Predict(0.01, 0.01);
  }

  void Correct(const Corners& seen) {
    const std::array sides = {seen.x1, seen.y1, seen.x2, seen.y2};
    for (size_t i = 0; i < 4; ++i) numbers_[i].Correct(sides[i], 0.1);
  }

  Corners box() const {
    return {numbers_[0].value, numbers_[1].value, numbers_[2].value, numbers_[3].value};
  }
  const Numbers& numbers() const { return numbers_; }

 private:
  Numbers numbers_{};
};

// A box as SORT measures it (arXiv 1602.00763): centre, area, width over height. In float, as its
// authors' implementation and Roboflow's compute it.
struct AreaBox {
  float cx, cy, area, aspect;

  static AreaBox Measure(const Corners& box) {
    const auto x1 = static_cast<float>(box.x1);
    const auto y1 = static_cast<float>(box.y1);
    const float width = static_cast<float>(box.x2) - x1;
    const float height = static_cast<float>(box.y2) - y1;
    // The bounds are for boxes so small that their area would be rounded to 0.
    return {x1 + width * 0.5F, y1 + height * 0.5F, std::max(width * height, 1e-30F),
            std::max(width / (height + 1e-6F), 1e-15F)};
  }
  float width() const { return std::sqrt(area * aspect); }
  float height() const { return std::sqrt(area / aspect); }
};

// Filter of SORT and OC-SORT: centre and area move, the aspect stays.
class AreaMotion {
 public:
  using Numbers = std::array<MovingNumber, 3>;  // cx, cy, area

  AreaMotion() = default;
  AreaMotion(const Numbers& numbers, double aspect, double aspect_variance)
      : numbers_(numbers), aspect_(aspect), aspect_variance_(aspect_variance) {}
  explicit AreaMotion(const AreaBox& box) : aspect_(box.aspect) {
    const std::array values = {box.cx, box.cy, box.area};
    for (size_t i = 0; i < 3; ++i) numbers_[i] = {values[i], 0.0, 10.0, 0.0, 10000.0};
  }

  void Predict() {
    MovingNumber& area = numbers_[2];
    if (area.value + area.velocity <= 0.0) area.velocity = 0.0;
    numbers_[0].Predict(1.0, 0.01);
    numbers_[1].Predict(1.0, 0.01);
    area.Predict(1.0, 0.0001);
    aspect_variance_ += 1.0;
  }

  void Correct(const AreaBox& seen) {
    numbers_[0].Correct(seen.cx, 1.0);
    numbers_[1].Correct(seen.cy, 1.0);
    numbers_[2].Correct(seen.area, kNoise);
    const double gain = aspect_variance_ / (aspect_variance_ + kNoise);
    aspect_ += gain * (seen.aspect - aspect_);
    aspect_variance_ *= 1.0 - gain;
  }

  Corners box() const {
    const double area = numbers_[2].value;
    const double width = std::sqrt(area * aspect_);
    const double height = width > 0.0 ? area / width : 0.0;
    const double cx = numbers_[0].value;
    const double cy = numbers_[1].value;
    return {cx - width / 2.0, cy - height / 2.0, cx + width / 2.0, cy + height / 2.0};
  }
  const Numbers& numbers() const { return numbers_; }
  double aspect() const { return aspect_; }
  double aspect_variance() const { return aspect_variance_; }

 private:
  static constexpr double kNoise = 10.0;  // of area and aspect

  Numbers numbers_{};
  double aspect_ = 0.0;
  double aspect_variance_ = 10.0;
};

}  // namespace endcap
