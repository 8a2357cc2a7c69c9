#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "box_decode/column_scan_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target.h includes this file once for each target: it has to come first.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "box_decode/head_scan.h"
#include "box_decode/head_vectors-inl.h"
#include "common/half.h"

HWY_BEFORE_NAMESPACE();
namespace endcap::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The bits of the greatest float16 number that is not greater than `limit`.
inline uint16_t HalfBelow(float limit) {
  const uint16_t nearest = FloatToHalf(limit + 0.0F);  // makes -0 a 0
  if (!(HalfToFloat(nearest) > limit)) return nearest;
  return static_cast<uint16_t>((nearest & 0x8000U) != 0 ? nearest + 1 : nearest - 1);
}

// Whether a block's values are finite and none is greater than a limit: the one thing that is done
// with most of a head.
template <typename T>
class LimitTest;

template <>
class LimitTest<float> {
 public:
  explicit LimitTest(float limit) : limit_(limit) {}

  static size_t BlockSize() { return 8 * hn::Lanes(Floats()); }

  HWY_INLINE bool Passes(const float* block) const {
    const Unsigned du;
    // limit - v is positive or 0 where v passes; has the sign bit where v is greater, also where
    // the difference is rounded; and is infinite or NaN where v is.
    const auto v0 = hn::Max(Distance(block, 0), Distance(block, 1));
    const auto v1 = hn::Max(Distance(block, 2), Distance(block, 3));
    const auto v2 = hn::Max(Distance(block, 4), Distance(block, 5));
    const auto v3 = hn::Max(Distance(block, 6), Distance(block, 7));
    const auto largest = hn::Set(du, Format<float>::kLargest);
    const auto most = hn::Max(hn::Max(v0, v1), hn::Max(v2, v3));
    return hn::AllTrue(du, hn::Eq(hn::Max(most, largest), largest));
  }

 private:
  HWY_INLINE hn::Vec<Unsigned> Distance(const float* block, size_t vector) const {
    const Floats d;
    const auto v = hn::LoadU(d, block + vector * hn::Lanes(d));
    return hn::BitCast(Unsigned(), hn::Sub(hn::Set(d, limit_), v));
  }

  float limit_;
};

// As integers, positive float16 numbers ascend and negative ones descend.
template <>
class LimitTest<uint16_t> {
 public:
  explicit LimitTest(float limit) {
    const uint16_t first = HalfBelow(limit);
    if ((first & 0x8000U) == 0) {
      shift_ = 0;
      top_ = static_cast<int16_t>(first);
    } else {
      // The integers from `first` to kLowest pass: they become the lowest signed ones.
      shift_ = static_cast<uint16_t>(0x8000U - first);
      const uint16_t last = std::max(first, kLowest);
      top_ = static_cast<int16_t>(static_cast<uint16_t>(last + shift_));
    }
  }

  static size_t BlockSize() { return 8 * hn::Lanes(Bits()); }

  HWY_INLINE bool Passes(const uint16_t* block) const {
    const Bits du;
    const hn::RebindToSigned<Bits> di;
    const auto shift = hn::Set(du, shift_);
    const auto top = hn::Set(di, top_);
    const auto lowest = hn::Set(du, kLowest);
    auto greatest = top;
    auto most = lowest;  // finds negative NaN
    const auto take = [&](size_t vector) {
      const auto bits = hn::LoadU(du, block + vector * hn::Lanes(du));
      greatest = hn::Max(greatest, hn::BitCast(di, hn::Add(bits, shift)));
      most = hn::Max(most, bits);
    };
    take(0);
    take(1);
    take(2);
    take(3);
    take(4);
    take(5);
    take(6);
    take(7);
    return hn::AllTrue(di, hn::Eq(greatest, top)) && hn::AllTrue(du, hn::Eq(most, lowest));
  }

 private:
  using Bits = BitsTag<uint16_t>;
  static constexpr uint16_t kLowest = 0xFBFF;  // the lowest finite number

  uint16_t shift_;
  int16_t top_;
};

// Calls look(first, last) for the ranges of values that do not pass the test, ascending.
template <typename T, typename Look>
HWY_INLINE void VisitSuspects(const T* values, size_t count, const LimitTest<T>& test, Look look) {
  const size_t block = LimitTest<T>::BlockSize();
  size_t i = 0;
  for (; i + block <= count; i += block) {
    if (HWY_UNLIKELY(!test.Passes(values + i))) look(i, i + block);
  }
  if (i == count) return;
  // The last block ends with the values: some of them are tested twice.
  if (count < block || !test.Passes(values + count - block)) look(i, count);
}

template <typename T>
bool FindNotFinite(const T* values, size_t count) {
  bool found = false;
  const LimitTest<T> finite(ToFloat(std::bit_cast<T>(Format<T>::kLargest)));
  VisitSuspects(values, count, finite, [&](size_t i, size_t last) {
    for (; i < last; ++i) found |= !std::isfinite(ToFloat(values[i]));
  });
  return found;
}

template <typename T>
ScanResult CollectGreater(const T* values, size_t count, float limit, uint32_t* passing) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  const auto limits = hn::Set(d, limit);
  auto sum0 = hn::Zero(d);
  auto sum1 = hn::Zero(d);
  ScanResult result;
  size_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    const auto v0 = LoadFloats(values + i);
    const auto v1 = LoadFloats(values + i + lanes);
    const auto v2 = LoadFloats(values + i + 2 * lanes);
    const auto v3 = LoadFloats(values + i + 3 * lanes);
    sum0 = hn::Add(sum0, hn::Add(v0, v1));
    sum1 = hn::Add(sum1, hn::Add(v2, v3));
    const uint64_t over =
        LaneBits(d, hn::Gt(v0, limits)) | LaneBits(d, hn::Gt(v1, limits)) << lanes |
        LaneBits(d, hn::Gt(v2, limits)) << 2 * lanes | LaneBits(d, hn::Gt(v3, limits)) << 3 * lanes;
    result.passing = AppendPositions(over, i, passing, result.passing);
  }
  float rest = 0.0F;
  for (; i < count; ++i) {
    const float value = ToFloat(values[i]);
    rest += value;
    if (value > limit) passing[result.passing++] = static_cast<uint32_t>(i);
  }
  result.may_hold_nan = IsSuspect(sum0) || IsSuspect(sum1) || !std::isfinite(rest);
  return result;
}

// Where the scores `v` of class `c` are the `greatest` of the anchors that are `raised`, they and
// the class become the best ones, with their bits (-0 or 0).
HWY_INLINE void TakeClass(FloatVector v, size_t c, FloatVector greatest, hn::Mask<Floats> raised,
                          FloatVector& best, hn::Vec<Signed>& best_class) {
  const Signed di;
  const auto here = hn::And(hn::Eq(v, greatest), raised);
  best = hn::IfThenElse(here, v, best);
  best_class =
      hn::IfThenElse(hn::RebindMask(di, here), hn::Set(di, static_cast<int32_t>(c)), best_class);
}

// Eight classes from `first` on, for the anchors of a tile: row 0 is the first class. Few scores
// are greater than what `best` began with, so classes are looked at where one is, and only there.
template <typename T>
HWY_INLINE FloatVector RaiseByEight(const T* row0, size_t anchors, size_t first, size_t count,
                                    const BestScores& found) {
  const Floats d;
  const Signed di;
  auto sum0 = hn::Zero(d);
  auto sum1 = hn::Zero(d);
  for (size_t a = 0; a < count; a += hn::Lanes(d)) {
    const T* scores = row0 + a;
    const auto v0 = LoadFloats(scores);
    const auto v1 = LoadFloats(scores + anchors);
    const auto v2 = LoadFloats(scores + 2 * anchors);
    const auto v3 = LoadFloats(scores + 3 * anchors);
    const auto v4 = LoadFloats(scores + 4 * anchors);
    const auto v5 = LoadFloats(scores + 5 * anchors);
    const auto v6 = LoadFloats(scores + 6 * anchors);
    const auto v7 = LoadFloats(scores + 7 * anchors);
    sum0 = hn::Add(sum0, hn::Add(hn::Add(v0, v1), hn::Add(v2, v3)));
    sum1 = hn::Add(sum1, hn::Add(hn::Add(v4, v5), hn::Add(v6, v7)));
    const auto greatest = hn::Max(hn::Max(hn::Max(v0, v1), hn::Max(v2, v3)),
                                  hn::Max(hn::Max(v4, v5), hn::Max(v6, v7)));
    auto so_far = hn::LoadU(d, found.best + a);
    const auto raised = hn::Gt(greatest, so_far);
    if (HWY_LIKELY(hn::AllFalse(d, raised))) continue;
    auto classes = hn::LoadU(di, found.best_class + a);
    // The lowest class comes last, and so is the one that stays.
    TakeClass(v7, first + 7, greatest, raised, so_far, classes);
    TakeClass(v6, first + 6, greatest, raised, so_far, classes);
    TakeClass(v5, first + 5, greatest, raised, so_far, classes);
    TakeClass(v4, first + 4, greatest, raised, so_far, classes);
    TakeClass(v3, first + 3, greatest, raised, so_far, classes);
    TakeClass(v2, first + 2, greatest, raised, so_far, classes);
    TakeClass(v1, first + 1, greatest, raised, so_far, classes);
    TakeClass(v0, first, greatest, raised, so_far, classes);
    hn::StoreU(so_far, d, found.best + a);
    hn::StoreU(classes, di, found.best_class + a);
  }
  return hn::Add(sum0, sum1);
}

// Where a score of class `c` is greater than the best so far, it and the class become the best
// ones. Equal scores leave the lowest class.
template <typename T>
HWY_INLINE void RaiseBest(const T* scores, size_t first, size_t last, size_t c,
                          const BestScores& found, FloatVector& sum, float& rest) {
  const Floats d;
  const Signed di;
  const auto class_id = static_cast<int32_t>(c);
  float* best = found.best;
  int32_t* best_class = found.best_class;
  size_t a = first;
  for (; a + hn::Lanes(d) <= last; a += hn::Lanes(d)) {
    const auto v = LoadFloats(scores + a);
    sum = hn::Add(sum, v);
    const auto so_far = hn::LoadU(d, best + a);
    const auto raised = hn::Gt(v, so_far);
    if (HWY_LIKELY(hn::AllFalse(d, raised))) continue;
    const auto classes = hn::LoadU(di, best_class + a);
    const auto raised_class = hn::RebindMask(di, raised);
    hn::StoreU(hn::IfThenElse(raised, v, so_far), d, best + a);
    hn::StoreU(hn::IfThenElse(raised_class, hn::Set(di, class_id), classes), di, best_class + a);
  }
  for (; a < last; ++a) {
    const float value = ToFloat(scores[a]);
    rest += value;
    if (!(value > best[a])) continue;
    best[a] = value;
    best_class[a] = class_id;
  }
}

// Row after row, as the head lies in memory.
template <typename T>
ScanResult CollectBest(const T* scores, size_t classes, size_t anchors, float limit,
                       const BestScores& found) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  const size_t whole = anchors - anchors % lanes;
  const auto limits = hn::Set(d, limit);
  const LimitTest<T> test(limit);
  for (size_t a = 0; a < anchors; a += lanes) hn::StoreU(limits, d, found.best + a);
  auto sum = hn::Zero(d);
  float rest = 0.0F;
  bool is_dense = false;
  size_t c = 0;
  while (c < classes) {
    const T* row = scores + c * anchors;
    // Where many scores are greater than the limit, looking at eight classes at once is faster.
    if (is_dense && c + 8 <= classes) {
      sum = hn::Add(sum, RaiseByEight(row, anchors, c, whole, found));
      for (size_t i = 0; i < 8; ++i) {
        RaiseBest(row + i * anchors, whole, anchors, c + i, found, sum, rest);
      }
      c += 8;
      is_dense = false;
      continue;
    }
    size_t looked_at = 0;
    VisitSuspects(row, anchors, test, [&](size_t first, size_t last) {
      looked_at += last - first;
      RaiseBest(row, first, last, c, found, sum, rest);
    });
    is_dense = looked_at > anchors / 4;
    ++c;
  }
  ScanResult result;
  // Behind the anchors, `best` is the limit.
  for (size_t a = 0; a < anchors; a += lanes) {
    const auto over = hn::Gt(hn::LoadU(d, found.best + a), limits);
    if (HWY_LIKELY(hn::AllFalse(d, over))) continue;
    result.passing = AppendPositions(LaneBits(d, over), a, found.passing, result.passing);
  }
  result.may_hold_nan = IsSuspect(sum) || !std::isfinite(rest);
  return result;
}

bool FindNotFiniteIn(const HeadValues& values) {
  return values.Visit([&](const auto* first) { return FindNotFinite(first, values.size()); });
}

ScanResult CollectGreaterIn(const HeadValues& values, float limit, uint32_t* passing) {
  return values.Visit(
      [&](const auto* first) { return CollectGreater(first, values.size(), limit, passing); });
}

ScanResult CollectBestIn(const HeadValues& scores, size_t classes, size_t anchors, float limit,
                         const BestScores& found) {
  return scores.Visit(
      [&](const auto* first) { return CollectBest(first, classes, anchors, limit, found); });
}

}  // namespace endcap::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace endcap {

HWY_EXPORT(FindNotFiniteIn);
HWY_EXPORT(CollectGreaterIn);
HWY_EXPORT(CollectBestIn);

bool MayHoldNan(const HeadValues& values) { return HWY_DYNAMIC_DISPATCH(FindNotFiniteIn)(values); }

ScanResult ScanGreater(const HeadValues& values, float limit, uint32_t* passing) {
  return HWY_DYNAMIC_DISPATCH(CollectGreaterIn)(values, limit, passing);
}

ScanResult ScanBest(const HeadValues& scores, size_t classes, size_t anchors, float limit,
                    const BestScores& found) {
  return HWY_DYNAMIC_DISPATCH(CollectBestIn)(scores, classes, anchors, limit, found);
}

}  // namespace endcap
#endif  // HWY_ONCE
