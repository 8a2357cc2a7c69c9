#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "box_decode/head_scan_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target.h includes this file once for each target: it has to come first.
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "box_decode/head_scan.h"
#include "box_decode/score_rows.h"
#include "common/vector_operations-inl.h"

HWY_BEFORE_NAMESPACE();
namespace endcap::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, kScanRoom>;
using Unsigned = hn::RebindToUnsigned<Floats>;
using Signed = hn::RebindToSigned<Floats>;
using FloatVector = hn::Vec<Floats>;
using SignedVector = hn::Vec<Signed>;

// Whether a sum is not finite.
HWY_INLINE bool IsSuspect(FloatVector sums) {
  // x - x is 0 for every finite x, else NaN.
  const Floats d;
  return !hn::AllTrue(d, hn::Eq(hn::Sub(sums, sums), hn::Zero(d)));
}

// The greatest of the values, minus infinity for none. All that is read is added to `sum` or
// `rest`.
HWY_INLINE float FindGreatest(const float* values, size_t count, FloatVector& sum, float& rest) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  float greatest = -std::numeric_limits<float>::infinity();
  size_t i = 0;
  if (count >= lanes) {
    auto max = hn::LoadU(d, values);
    // The last vector ends with the values; what is read twice changes nothing.
    for (; i < count; i += lanes) {
      const auto v = hn::LoadU(d, values + std::min(i, count - lanes));
      sum = hn::Add(sum, v);
      max = hn::Max(max, v);
    }
    greatest = hn::GetLane(hn::MaxOfLanes(d, max));
  }
  for (; i < count; ++i) {
    rest += values[i];
    greatest = std::max(greatest, values[i]);
  }
  return greatest;
}

// Appends the positions first + bit. (Highway's Compress is no faster: with AVX2, GCC copies its
// table to the stack at each call.)
HWY_INLINE size_t AppendPositions(uint64_t bits, size_t first, uint32_t* passing, size_t count) {
  for (; bits != 0; bits &= bits - 1) {
    passing[count++] = static_cast<uint32_t>(first) + static_cast<uint32_t>(std::countr_zero(bits));
  }
  return count;
}

ScanResult CollectGreater(const float* values, size_t count, float limit, uint32_t* passing) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  const auto limits = hn::Set(d, limit);
  auto sum0 = hn::Zero(d);
  auto sum1 = hn::Zero(d);
  ScanResult result;
  size_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    const auto v0 = hn::LoadU(d, values + i);
    const auto v1 = hn::LoadU(d, values + i + lanes);
    const auto v2 = hn::LoadU(d, values + i + 2 * lanes);
    const auto v3 = hn::LoadU(d, values + i + 3 * lanes);
    sum0 = hn::Add(sum0, hn::Add(v0, v1));
    sum1 = hn::Add(sum1, hn::Add(v2, v3));
    const uint64_t over =
        LaneBits(d, hn::Gt(v0, limits)) | LaneBits(d, hn::Gt(v1, limits)) << lanes |
        LaneBits(d, hn::Gt(v2, limits)) << 2 * lanes | LaneBits(d, hn::Gt(v3, limits)) << 3 * lanes;
    result.passing = AppendPositions(over, i, passing, result.passing);
  }
  float rest = 0.0F;
  for (; i < count; ++i) {
    rest += values[i];
    if (values[i] > limit) passing[result.passing++] = static_cast<uint32_t>(i);
  }
  result.may_hold_nan = IsSuspect(sum0) || IsSuspect(sum1) || !std::isfinite(rest);
  return result;
}

// Where the scores `v` of class `c` are the `greatest` of the anchors that are `raised`, they and
// the class become the best ones, with their bits (-0 or 0).
HWY_INLINE void TakeClass(FloatVector v, size_t c, FloatVector greatest, hn::Mask<Floats> raised,
                          FloatVector& best, SignedVector& best_class) {
  const Signed di;
  const auto here = hn::And(hn::Eq(v, greatest), raised);
  best = hn::IfThenElse(here, v, best);
  best_class =
      hn::IfThenElse(hn::RebindMask(di, here), hn::Set(di, static_cast<int32_t>(c)), best_class);
}

// Eight classes from `first` on, for the anchors of a tile: row 0 is the first class. Few scores
// are greater than what `best` began with, so classes are looked at where one is, and only there.
HWY_INLINE FloatVector RaiseByEight(const float* row0, size_t anchors, size_t first, size_t tile,
                                    float* best, int32_t* best_class) {
  const Floats d;
  const Signed di;
  auto sum0 = hn::Zero(d);
  auto sum1 = hn::Zero(d);
  for (size_t a = 0; a < tile; a += hn::Lanes(d)) {
    const float* scores = row0 + a;
    const auto v0 = hn::LoadU(d, scores);
    const auto v1 = hn::LoadU(d, scores + anchors);
    const auto v2 = hn::LoadU(d, scores + 2 * anchors);
    const auto v3 = hn::LoadU(d, scores + 3 * anchors);
    const auto v4 = hn::LoadU(d, scores + 4 * anchors);
    const auto v5 = hn::LoadU(d, scores + 5 * anchors);
    const auto v6 = hn::LoadU(d, scores + 6 * anchors);
    const auto v7 = hn::LoadU(d, scores + 7 * anchors);
    sum0 = hn::Add(sum0, hn::Add(hn::Add(v0, v1), hn::Add(v2, v3)));
    sum1 = hn::Add(sum1, hn::Add(hn::Add(v4, v5), hn::Add(v6, v7)));
    const auto greatest = hn::Max(hn::Max(hn::Max(v0, v1), hn::Max(v2, v3)),
                                  hn::Max(hn::Max(v4, v5), hn::Max(v6, v7)));
    auto so_far = hn::LoadU(d, best + a);
    const auto raised = hn::Gt(greatest, so_far);
    if (HWY_LIKELY(hn::AllFalse(d, raised))) continue;
    auto classes = hn::LoadU(di, best_class + a);
    // The lowest class comes last, and so is the one that stays.
    TakeClass(v7, first + 7, greatest, raised, so_far, classes);
    TakeClass(v6, first + 6, greatest, raised, so_far, classes);
    TakeClass(v5, first + 5, greatest, raised, so_far, classes);
    TakeClass(v4, first + 4, greatest, raised, so_far, classes);
    TakeClass(v3, first + 3, greatest, raised, so_far, classes);
    TakeClass(v2, first + 2, greatest, raised, so_far, classes);
    TakeClass(v1, first + 1, greatest, raised, so_far, classes);
    TakeClass(v0, first, greatest, raised, so_far, classes);
    hn::StoreU(so_far, d, best + a);
    hn::StoreU(classes, di, best_class + a);
  }
  return hn::Add(sum0, sum1);
}

HWY_INLINE FloatVector RaiseByOne(const float* row, size_t c, size_t tile, float* best,
                                  int32_t* best_class) {
  const Floats d;
  const Signed di;
  auto sum = hn::Zero(d);
  for (size_t a = 0; a < tile; a += hn::Lanes(d)) {
    const auto v = hn::LoadU(d, row + a);
    sum = hn::Add(sum, v);
    auto so_far = hn::LoadU(d, best + a);
    const auto raised = hn::Gt(v, so_far);
    if (HWY_LIKELY(hn::AllFalse(d, raised))) continue;
    auto classes = hn::LoadU(di, best_class + a);
    TakeClass(v, c, v, raised, so_far, classes);
    hn::StoreU(so_far, d, best + a);
    hn::StoreU(classes, di, best_class + a);
  }
  return sum;
}

// The best class of every anchor of a tile that has a score greater than `limit`, row after row as
// the head lies in memory; of others, best is `limit`. Returns the sum of all that was read.
HWY_INLINE FloatVector FindTileBest(const float* scores, size_t classes, size_t anchors,
                                    size_t tile, float limit, float* best, int32_t* best_class) {
  const Floats d;
  auto sum = hn::Zero(d);
  std::fill_n(best, tile, limit);
  size_t c = 0;
  for (; c + 8 <= classes; c += 8) {
    sum = hn::Add(sum, RaiseByEight(scores + c * anchors, anchors, c, tile, best, best_class));
  }
  for (; c < classes; ++c) {
    sum = hn::Add(sum, RaiseByOne(scores + c * anchors, c, tile, best, best_class));
  }
  return sum;
}

ScanResult CollectBest(const float* scores, size_t classes, size_t anchors, float limit,
                       uint32_t* passing, float* best, int32_t* best_class) {
  constexpr size_t kTile = 2048;  // 8 KiB of each row
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  const size_t whole = anchors / lanes * lanes;
  const auto limits = hn::Set(d, limit);
  auto sum = hn::Zero(d);
  ScanResult result;
  for (size_t first = 0; first < whole; first += kTile) {
    const size_t end = std::min(first + kTile, whole);
    sum = hn::Add(sum, FindTileBest(scores + first, classes, anchors, end - first, limit,
                                    best + first, best_class + first));
    for (size_t a = first; a < end; a += lanes) {
      const auto over = hn::Gt(hn::LoadU(d, best + a), limits);
      if (HWY_LIKELY(hn::AllFalse(d, over))) continue;
      result.passing = AppendPositions(LaneBits(d, over), a, passing, result.passing);
    }
  }
  float rest = 0.0F;
  for (size_t a = whole; a < anchors; ++a) {
    best[a] = scores[a];
    best_class[a] = 0;
    for (size_t c = 0; c < classes; ++c) {
      const float value = scores[c * anchors + a];
      rest += value;
      if (value > best[a]) {
        best[a] = value;
        best_class[a] = static_cast<int32_t>(c);
      }
    }
    if (best[a] > limit) passing[result.passing++] = static_cast<uint32_t>(a);
  }
  result.may_hold_nan = IsSuspect(sum) || !std::isfinite(rest);
  return result;
}

bool SuspectNan(const float* values, size_t count) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  auto sum0 = hn::Zero(d);
  auto sum1 = hn::Zero(d);
  size_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    sum0 = hn::Add(sum0, hn::LoadU(d, values + i));
    sum1 = hn::Add(sum1, hn::LoadU(d, values + i + lanes));
  }
  float rest = 0.0F;
  for (; i < count; ++i) rest += values[i];
  return IsSuspect(sum0) || IsSuspect(sum1) || !std::isfinite(rest);
}

ScanResult CollectRows(const float* rows, size_t count, size_t classes,
                       const ObjectnessLimits& limits, uint32_t* passing) {
  const Floats d;
  const size_t length = 5 + classes;
  auto sum = hn::Zero(d);
  float rest = 0.0F;
  ScanResult result;
  for (size_t r = 0; r < count; ++r) {
    const float* row = rows + r * length;
    for (size_t i = 0; i < 5; ++i) rest += row[i];
    const float greatest = FindGreatest(row + 5, classes, sum, rest);
    // A product with a negative objectness may grow where the class score falls.
    const bool passes = limits.is_sigmoid ? row[4] > limits.raw && greatest > limits.raw
                                          : row[4] < 0.0F || row[4] * greatest > limits.product;
    passing[result.passing] = static_cast<uint32_t>(r);
    if (passes) ++result.passing;
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

}  // namespace endcap::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace endcap {

HWY_EXPORT(CollectGreater);
HWY_EXPORT(CollectBest);
HWY_EXPORT(SuspectNan);
HWY_EXPORT(CollectRows);
HWY_EXPORT(CollectGreatest);

ScanResult ScanGreater(std::span<const float> values, float limit, uint32_t* passing) {
  return HWY_DYNAMIC_DISPATCH(CollectGreater)(values.data(), values.size(), limit, passing);
}

ScanResult ScanBest(const float* scores, size_t classes, size_t anchors, float limit,
                    uint32_t* passing, float* best, int32_t* best_class) {
  return HWY_DYNAMIC_DISPATCH(CollectBest)(scores, classes, anchors, limit, passing, best,
                                           best_class);
}

bool MayHoldNan(std::span<const float> values) {
  return HWY_DYNAMIC_DISPATCH(SuspectNan)(values.data(), values.size());
}

ScanResult ScanRows(const float* rows, size_t count, size_t classes, const ObjectnessLimits& limits,
                    uint32_t* passing) {
  return HWY_DYNAMIC_DISPATCH(CollectRows)(rows, count, classes, limits, passing);
}

bool ScanGreatest(const ScoreRows& rows, size_t classes, float* greatest) {
  return HWY_DYNAMIC_DISPATCH(CollectGreatest)(rows, classes, greatest);
}

}  // namespace endcap
#endif  // HWY_ONCE
