#pragma once

#include <algorithm>
#include <array>

namespace endcap {

// A box as the filter sees it: centre, width over height, height.
struct BoxState {
  double cx, cy, aspect, height;
};

// Kalman filter of a box that moves with constant velocity, with the noise of DeepSORT (arXiv
// 1703.07402): deviations are parts of the box's height. Transition and noise join a number with
// its own velocity alone, so the filter of eight numbers is four of two.
class BoxMotion {
 public:
  struct Number {
    double value, velocity;
    double value_variance, covariance, velocity_variance;
  };
  using Numbers = std::array<Number, 4>;  // in the order of BoxState

  BoxMotion() = default;
  explicit BoxMotion(const Numbers& numbers) : numbers_(numbers) {}
  // A box that is seen for the first time.
  explicit BoxMotion(const BoxState& box) {
    const auto values = AsArray(box);
    for (size_t i = 0; i < 4; ++i) {
      const double place = 2.0 * kPlace * box.height;
      const double speed = 10.0 * kSpeed * box.height;
      const bool is_aspect = i == kAspect;
      numbers_[i] = {values[i], 0.0, Square(is_aspect ? 1e-2 : place), 0.0,
                     Square(is_aspect ? 1e-5 : speed)};
    }
  }

  // To the next frame.
  void Predict() {
    const double height = numbers_[kHeight].value;
    for (size_t i = 0; i < 4; ++i) {
      const bool is_aspect = i == kAspect;
      Number& n = numbers_[i];
      n.value += n.velocity;
      n.value_variance +=
          2.0 * n.covariance + n.velocity_variance + Square(is_aspect ? 1e-2 : kPlace * height);
      n.covariance += n.velocity_variance;
      n.velocity_variance += Square(is_aspect ? 1e-5 : kSpeed * height);
    }
  }

  // Takes in the box that was seen in this frame.
  void Correct(const BoxState& seen) {
    const auto values = AsArray(seen);
    const double height = numbers_[kHeight].value;
    for (size_t i = 0; i < 4; ++i) {
      Number& n = numbers_[i];
      const double noise = Square(i == kAspect ? 1e-1 : kPlace * height);
      const double variance = n.value_variance + noise;
      const double value_gain = n.value_variance / variance;
      const double velocity_gain = n.covariance / variance;
      const double difference = values[i] - n.value;
      n.value += value_gain * difference;
      n.velocity += velocity_gain * difference;
      // The textbook's forms written so that no variance is rounded to less than 0.
      n.velocity_variance = std::max(n.velocity_variance - velocity_gain * n.covariance, 0.0);
      n.covariance *= noise / variance;
      n.value_variance *= noise / variance;
    }
  }

  // The height of a box that is not seen does not grow on and on.
  void StopHeight() { numbers_[kHeight].velocity = 0.0; }

  BoxState box() const {
    return {numbers_[0].value, numbers_[1].value, numbers_[kAspect].value, numbers_[kHeight].value};
  }
  const Numbers& numbers() const { return numbers_; }

 private:
  static constexpr double kPlace = 1.0 / 20.0;
  static constexpr double kSpeed = 1.0 / 160.0;
  static constexpr size_t kAspect = 2;
  static constexpr size_t kHeight = 3;

  static double Square(double value) { return value * value; }
  static std::array<double, 4> AsArray(const BoxState& box) {
    return {box.cx, box.cy, box.aspect, box.height};
  }

  Numbers numbers_{};
};

}  // namespace endcap
