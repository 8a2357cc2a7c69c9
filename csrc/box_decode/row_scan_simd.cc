#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "box_decode/row_scan_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target.h includes this file once for each target: it has to come first.
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "box_decode/head_scan.h"
#include "box_decode/head_vectors-inl.h"
#include "box_decode/score_rows.h"

HWY_BEFORE_NAMESPACE();
namespace endcap::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The greatest of the values, minus infinity for none. All that is read is added to `sum` or
// `rest`.
template <typename T>
HWY_INLINE float FindGreatest(const T* values, size_t count, FloatVector& sum, float& rest) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  float greatest = -std::numeric_limits<float>::infinity();
  size_t i = 0;
  if (count >= lanes) {
    auto max = LoadFloats(values);
    // The last vector ends with the values; what is read twice changes nothing.
    for (; i < count; i += lanes) {
      const auto v = LoadFloats(values + std::min(i, count - lanes));
      sum = hn::Add(sum, v);
      max = hn::Max(max, v);
    }
    greatest = hn::GetLane(hn::MaxOfLanes(d, max));
  }
  for (; i < count; ++i) {
    const float value = ToFloat(values[i]);
    rest += value;
    greatest = std::max(greatest, value);
  }
  return greatest;
}

// Values as integers: those under `mask` must not be greater than `bound`.
template <typename T>
struct BitsBound {
  typename Format<T>::Bits mask;
  typename Format<T>::Bits bound;
};

constexpr size_t kRowGroup = 4;

// Whether all boxes of kRowGroup rows are finite, and all values behind them within `bound`.
template <typename T>
HWY_INLINE bool AreBounded(const T* rows, size_t length, const BitsBound<T>& bound) {
  const BitsTag<T> d;
  const hn::CappedTag<typename Format<T>::Bits, 4> d_box;
  const size_t lanes = hn::Lanes(d);
  const auto mask = hn::Set(d, bound.mask);
  const auto magnitude = hn::Set(d_box, Format<T>::kMagnitude);
  const auto most = hn::Set(d, bound.bound);
  const auto largest = hn::Set(d_box, Format<T>::kLargest);
  const auto load = [&](const T* values) { return hn::And(LoadBits(d, values), mask); };
  auto box = largest;
  auto even = most;
  auto odd = most;
  bool short_rows_are_bounded = true;
  for (size_t r = 0; r < kRowGroup; ++r, rows += length) {
    for (size_t i = 0; i < 4; i += hn::Lanes(d_box)) {
      box = hn::Max(box, hn::And(LoadBits(d_box, rows + i), magnitude));
    }
    size_t i = 4;
    for (; i + 2 * lanes <= length; i += 2 * lanes) {
      even = hn::Max(even, load(rows + i));
      odd = hn::Max(odd, load(rows + i + lanes));
    }
    if (HWY_LIKELY(length >= 4 + lanes)) {
      // What is read twice changes nothing.
      if (i + lanes < length) even = hn::Max(even, load(rows + i));
      odd = hn::Max(odd, load(rows + length - lanes));
    } else {
      for (; i < length; ++i) {
        const auto bits = std::bit_cast<typename Format<T>::Bits>(rows[i]);
        short_rows_are_bounded &= (bits & bound.mask) <= bound.bound;
      }
    }
  }
  return short_rows_are_bounded && hn::AllTrue(d_box, hn::Eq(box, largest)) &&
         hn::AllTrue(d, hn::Eq(hn::Max(even, odd), most));
}

template <typename T>
ScanResult CollectRows(const T* rows, size_t count, size_t length, const ObjectnessLimits& limits,
                       uint32_t* passing) {
  const Floats d;
  auto sum = hn::Zero(d);
  float rest = 0.0F;
  ScanResult result;
  const auto add_if_passing = [&](size_t r, float objectness) {
    const float greatest = FindGreatest(rows + r * length + 5, length - 5, sum, rest);
    // A product with a negative objectness may grow where the class score falls.
    const bool passes = limits.is_sigmoid
                            ? objectness > limits.raw && greatest > limits.raw
                            : objectness < 0.0F || objectness * greatest > limits.product;
    passing[result.passing] = static_cast<uint32_t>(r);
    if (passes) ++result.passing;
  };
  // Without a sigmoid, numbers are seldom outside of 0 to 1. Where none is, a product is not
  // greater than its objectness, and most rows are known by that alone.
  const BitsBound<T> bound =
      limits.is_sigmoid ? BitsBound<T>{Format<T>::kMagnitude, Format<T>::kLargest}
                        : BitsBound<T>{static_cast<typename Format<T>::Bits>(-1), Format<T>::kOne};
  const float least = limits.is_sigmoid ? limits.raw : limits.product;
  size_t r = 0;
  for (; r + kRowGroup <= count; r += kRowGroup) {
    const bool bounded = AreBounded(rows + r * length, length, bound);
    for (size_t i = r; i < r + kRowGroup; ++i) {
      const T* row = rows + i * length;
      const float objectness = ToFloat(row[4]);
      if (HWY_LIKELY(bounded)) {
        if (HWY_LIKELY(!(objectness > least))) continue;
      } else {
        for (size_t column = 0; column < 5; ++column) rest += ToFloat(row[column]);
      }
      add_if_passing(i, objectness);
    }
  }
  for (; r < count; ++r) {
    const T* row = rows + r * length;
    for (size_t column = 0; column < 5; ++column) rest += ToFloat(row[column]);
    add_if_passing(r, ToFloat(row[4]));
  }
  result.may_hold_nan = IsSuspect(sum) || !std::isfinite(rest);
  return result;
}

bool CollectGreatest(const ScoreRows& rows, size_t classes, float* greatest) {
  const Floats d;
  auto sum = hn::Zero(d);
  float rest = 0.0F;
  for (size_t r = 0; r < rows.count(); ++r) {
    const float* scores = rows.Row(r);
    if (rows.has_background) rest += scores[rows.background];
    greatest[r] = FindGreatest(scores, classes, sum, rest);
  }
  return IsSuspect(sum) || !std::isfinite(rest);
}

ScanResult CollectRowsIn(const HeadValues& rows, size_t length, const ObjectnessLimits& limits,
                         uint32_t* passing) {
  return rows.Visit([&](const auto* first) {
    return CollectRows(first, rows.size() / length, length, limits, passing);
  });
}

}  // namespace endcap::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace endcap {

HWY_EXPORT(CollectRowsIn);
HWY_EXPORT(CollectGreatest);

ScanResult ScanRows(const HeadValues& rows, size_t length, const ObjectnessLimits& limits,
                    uint32_t* passing) {
  return HWY_DYNAMIC_DISPATCH(CollectRowsIn)(rows, length, limits, passing);
}

bool ScanGreatest(const ScoreRows& rows, size_t classes, float* greatest) {
  return HWY_DYNAMIC_DISPATCH(CollectGreatest)(rows, classes, greatest);
}

}  // namespace endcap
#endif  // HWY_ONCE
