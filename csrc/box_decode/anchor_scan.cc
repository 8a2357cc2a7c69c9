#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "box_decode/anchor_scan.cc"
#include <hwy/foreach_target.h>
// foreach_target.h includes this file once for each target: it has to come first.
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "box_decode/head_scan-inl.h"
#include "common/lane_bits-inl.h"

HWY_BEFORE_NAMESPACE();
namespace endcap::HWY_NAMESPACE {

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

// The greatest score of every anchor of a tile, row after row as the head lies in memory; the sum
// of all that was read.
HWY_INLINE FloatVector GreatestOfTile(const float* scores, size_t classes, size_t anchors,
                                      size_t tile, float* greatest) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  auto sum0 = hn::Zero(d);
  auto sum1 = hn::Zero(d);
  const auto lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  for (size_t a = 0; a < tile; a += lanes) hn::StoreU(lowest, d, greatest + a);
  size_t c = 0;
  for (; c + 4 <= classes; c += 4) {
    const float* row0 = scores + c * anchors;
    const float* row1 = row0 + anchors;
    const float* row2 = row1 + anchors;
    const float* row3 = row2 + anchors;
    for (size_t a = 0; a < tile; a += lanes) {
      const auto v0 = hn::LoadU(d, row0 + a);
      const auto v1 = hn::LoadU(d, row1 + a);
      const auto v2 = hn::LoadU(d, row2 + a);
      const auto v3 = hn::LoadU(d, row3 + a);
      sum0 = hn::Add(sum0, hn::Add(v0, v1));
      sum1 = hn::Add(sum1, hn::Add(v2, v3));
      const auto max = hn::Max(hn::Max(v0, v1), hn::Max(v2, v3));
      hn::StoreU(hn::Max(hn::LoadU(d, greatest + a), max), d, greatest + a);
    }
  }
  for (; c < classes; ++c) {
    for (size_t a = 0; a < tile; a += lanes) {
      const auto v = hn::LoadU(d, scores + c * anchors + a);
      sum0 = hn::Add(sum0, v);
      hn::StoreU(hn::Max(hn::LoadU(d, greatest + a), v), d, greatest + a);
    }
  }
  return hn::Add(sum0, sum1);
}

// The lowest class that has the greatest score, and that score as it stands there (-0 or 0), for
// the anchors of a vector that are `wanted`.
HWY_INLINE void FindClasses(const float* scores, size_t classes, size_t anchors,
                            FloatVector greatest, hn::Mask<Floats> wanted, float* best,
                            int32_t* best_class) {
  const Floats d;
  const Signed di;
  auto found = hn::Zero(di);
  auto value = greatest;
  auto missing = wanted;
  for (size_t c = 0; c < classes && !hn::AllFalse(d, missing); ++c) {
    const auto v = hn::LoadU(d, scores + c * anchors);
    const auto here = hn::And(hn::Eq(v, greatest), missing);
    found = hn::IfThenElse(hn::RebindMask(di, here), hn::Set(di, static_cast<int32_t>(c)), found);
    value = hn::IfThenElse(here, v, value);
    missing = hn::AndNot(here, missing);
  }
  hn::StoreU(value, d, best);
  hn::StoreU(found, di, best_class);
}

ScanResult CollectBest(const float* scores, size_t classes, size_t anchors, float limit,
                       uint32_t* passing, float* best, int32_t* best_class) {
  constexpr size_t kTile = 2048;  // 8 KiB of each row
  HWY_ALIGN float greatest[kTile];
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  const size_t whole = anchors / lanes * lanes;
  const auto limits = hn::Set(d, limit);
  auto sum = hn::Zero(d);
  ScanResult result;
  for (size_t first = 0; first < whole; first += kTile) {
    const size_t tile = std::min(kTile, whole - first);
    sum = hn::Add(sum, GreatestOfTile(scores + first, classes, anchors, tile, greatest));
    for (size_t a = 0; a < tile; a += lanes) {
      const auto max = hn::Load(d, greatest + a);
      const auto over = hn::Gt(max, limits);
      if (HWY_LIKELY(hn::AllFalse(d, over))) continue;
      const size_t anchor = first + a;
      FindClasses(scores + anchor, classes, anchors, max, over, best + anchor, best_class + anchor);
      result.passing = AppendPositions(LaneBits(d, over), anchor, passing, result.passing);
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

}  // namespace endcap::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace endcap {

HWY_EXPORT(CollectGreater);
HWY_EXPORT(CollectBest);

ScanResult ScanGreater(std::span<const float> values, float limit, uint32_t* passing) {
  return HWY_DYNAMIC_DISPATCH(CollectGreater)(values.data(), values.size(), limit, passing);
}

ScanResult ScanBest(const float* scores, size_t classes, size_t anchors, float limit,
                    uint32_t* passing, float* best, int32_t* best_class) {
  return HWY_DYNAMIC_DISPATCH(CollectBest)(scores, classes, anchors, limit, passing, best,
                                           best_class);
}

}  // namespace endcap
#endif  // HWY_ONCE
