#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "tracking/detection.h"
#include "tracking/saved_state.h"

namespace endcap {

// Kalman filter of a number that changes with constant velocity. Filters of boxes are some of
// these: transition and noise join a number with its own velocity alone.
struct MovingNumber {
  double value, velocity;
  double value_variance, covariance, velocity_variance;

  // On by a number of frames, with the variances that a frame adds.
  void Predict(double frames, double value_noise, double velocity_noise) {
    value += frames * velocity;
    const double growth = 2.0 * covariance + frames * velocity_variance;
    value_variance += frames * growth + frames * value_noise;
    covariance += frames * velocity_variance;
    velocity_variance += frames * velocity_noise;
  }

  // Multiplies the number by a factor.
  void Scale(double factor) {
    for (double* part : {&value, &velocity}) *part *= factor;
    const double square = factor * factor;
    for (double* part : {&value_variance, &covariance, &velocity_variance}) *part *= square;
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

  void Visit(SavedState& state) {
    state.Number(value);
    state.Number(velocity);
    state.Number(value_variance, 0.0);
    state.Number(covariance);
    state.Number(velocity_variance, 0.0);
  }
};

// Moves boxes and filters from one frame to the next, as BoT-SORT does (arXiv 2206.14651), but
// sizes are scaled only. By a rotation and a scale, x and y keep equal variances and no covariance.
class CameraMotion {
 public:
  explicit CameraMotion(const std::array<double, 6>& matrix)
      : m_(matrix), scale_(std::sqrt(m_[0] * m_[4] - m_[1] * m_[3])) {}

  bool IsValid() const { return scale_ > 0.0 && std::isfinite(scale_ + m_[2] + m_[5]); }
  double scale() const { return scale_; }

  // shift: 0 for velocities.
  Corners Move(const Corners& box, double shift = 1.0) const {
    return BoxAround(m_[0] * box.cx() + m_[1] * box.cy() + shift * m_[2],
                     m_[3] * box.cx() + m_[4] * box.cy() + shift * m_[5],
                     scale_ * (box.x2 - box.x1), scale_ * (box.y2 - box.y1));
  }

  // The filters of four sides, or twice those of a centre.
  std::array<MovingNumber, 4> MoveNumbers(std::array<MovingNumber, 4> n) const {
    const auto [x1, y1, x2, y2] = Move({n[0].value, n[1].value, n[2].value, n[3].value});
    const auto speed = Move({n[0].velocity, n[1].velocity, n[2].velocity, n[3].velocity}, 0.0);
    for (MovingNumber& number : n) number.Scale(scale_);
    for (size_t i = 0; i < 4; ++i) {
      n[i].value = std::array{x1, y1, x2, y2}[i];
      n[i].velocity = std::array{speed.x1, speed.y1, speed.x2, speed.y2}[i];
    }
    return n;
  }

 private:
  std::array<double, 6> m_;
  double scale_;
};

// Filter of ByteTrack: centre, width over height, and height, with the noise of DeepSORT (arXiv
// 1703.07402), whose deviations are parts of the box's height.
class AspectMotion {
 public:
  AspectMotion() = default;
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

  void Predict(double frames) {
    const double height = numbers_[kHeight].value;
    for (size_t i = 0; i < 4; ++i) {
      const bool is_aspect = i == kAspect;
      numbers_[i].Predict(frames, Square(is_aspect ? 1e-2 : kPlace * height),
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

  void Move(const CameraMotion& camera) {
    const auto moved = camera.MoveNumbers({numbers_[0], numbers_[1], numbers_[0], numbers_[1]});
    std::copy_n(moved.begin(), 2, numbers_.begin());
    numbers_[kHeight].Scale(camera.scale());
  }

  // The height of a box that is not seen does not grow on and on.
  void StopHeight() { numbers_[kHeight].velocity = 0.0; }

  Corners box() const {
    const double height = numbers_[kHeight].value;
    return BoxAround(numbers_[0].value, numbers_[1].value, numbers_[kAspect].value * height,
                     height);
  }

  void Visit(SavedState& state) {
    for (MovingNumber& number : numbers_) number.Visit(state);
  }

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

  std::array<MovingNumber, 4> numbers_{};
};

// Filter of the four sides, with the noise of Roboflow's ByteTrack: the same for boxes of all
// sizes.
class SideMotion {
 public:
  SideMotion() = default;
  explicit SideMotion(const Corners& box) {
    const std::array sides = {box.x1, box.y1, box.x2, box.y2};
    for (size_t i = 0; i < 4; ++i) numbers_[i] = {sides[i], 0.0, 1.0, 0.0, 1.0};
  }

  void Predict(double frames) {
    for (MovingNumber& number : numbers_) number.Predict(frames, 0.01, 0.01);
  }

  void Correct(const Corners& seen) {
    const std::array sides = {seen.x1, seen.y1, seen.x2, seen.y2};
    for (size_t i = 0; i < 4; ++i) numbers_[i].Correct(sides[i], 0.1);
  }

  void Move(const CameraMotion& camera) { numbers_ = camera.MoveNumbers(numbers_); }

  Corners box() const {
    return {numbers_[0].value, numbers_[1].value, numbers_[2].value, numbers_[3].value};
  }

  void Visit(SavedState& state) {
    for (MovingNumber& number : numbers_) number.Visit(state);
  }

 private:
  std::array<MovingNumber, 4> numbers_{};
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
  AreaMotion() = default;
  explicit AreaMotion(const AreaBox& box) : aspect_(box.aspect) {
    const std::array values = {box.cx, box.cy, box.area};
    for (size_t i = 0; i < 3; ++i) numbers_[i] = {values[i], 0.0, 10.0, 0.0, 10000.0};
  }

  void Predict(double frames) {
    MovingNumber& area = numbers_[2];
    if (area.value + frames * area.velocity <= 0.0) area.velocity = 0.0;
    numbers_[0].Predict(frames, 1.0, 0.01);
    numbers_[1].Predict(frames, 1.0, 0.01);
    area.Predict(frames, 1.0, 0.0001);
    aspect_variance_ += frames;
  }

  void Correct(const AreaBox& seen) {
    numbers_[0].Correct(seen.cx, 1.0);
    numbers_[1].Correct(seen.cy, 1.0);
    numbers_[2].Correct(seen.area, kNoise);
    const double gain = aspect_variance_ / (aspect_variance_ + kNoise);
    aspect_ += gain * (seen.aspect - aspect_);
    aspect_variance_ *= 1.0 - gain;
  }

  void Move(const CameraMotion& camera) {
    const auto moved = camera.MoveNumbers({numbers_[0], numbers_[1], numbers_[0], numbers_[1]});
    std::copy_n(moved.begin(), 2, numbers_.begin());
    numbers_[2].Scale(camera.scale() * camera.scale());
  }

  Corners box() const {
    const double area = numbers_[2].value;
    const double width = std::sqrt(area * aspect_);
    const double height = width > 0.0 ? area / width : 0.0;
    return BoxAround(numbers_[0].value, numbers_[1].value, width, height);
  }

  void Visit(SavedState& state) {
    for (MovingNumber& number : numbers_) number.Visit(state);
    state.Number(aspect_);
    state.Number(aspect_variance_, 0.0);
  }

 private:
  static constexpr double kNoise = 10.0;  // of area and aspect

  std::array<MovingNumber, 3> numbers_{};  // cx, cy, area
  double aspect_ = 0.0;
  double aspect_variance_ = 10.0;
};

}  // namespace endcap
