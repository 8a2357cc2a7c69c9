// Included once for each target of Highway; see hwy/foreach_target.h.
#if defined(ENDCAP_BOX_DECODE_HEAD_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENDCAP_BOX_DECODE_HEAD_VECTORS_INL_H_
#undef ENDCAP_BOX_DECODE_HEAD_VECTORS_INL_H_
#else
#define ENDCAP_BOX_DECODE_HEAD_VECTORS_INL_H_
#endif

#include <hwy/highway.h>

#include <bit>
#include <cstddef>
#include <cstdint>

#include "box_decode/head_scan.h"
#include "common/half.h"
#include "common/vector_operations-inl.h"

// Vectors of a head's values, for the scans of head_scan.h.

HWY_BEFORE_NAMESPACE();
namespace endcap {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, kScanRoom>;
using Unsigned = hn::RebindToUnsigned<Floats>;
using Signed = hn::RebindToSigned<Floats>;
using FloatVector = hn::Vec<Floats>;

// float16 values are given as their bits.
template <typename T>
struct Format;

template <>
struct Format<float> {
  using Bits = uint32_t;
  static constexpr Bits kMagnitude = 0x7FFFFFFF;
  static constexpr Bits kLargest = 0x7F7FFFFF;  // finite
  static constexpr Bits kOne = 0x3F800000;
};

template <>
struct Format<uint16_t> {
  using Bits = uint16_t;
  static constexpr Bits kMagnitude = 0x7FFF;
  static constexpr Bits kLargest = 0x7BFF;
  static constexpr Bits kOne = 0x3C00;
};

template <typename T>
using BitsTag = hn::CappedTag<typename Format<T>::Bits, 64 / sizeof(T)>;

template <class D>
HWY_INLINE hn::Vec<D> LoadBits(D d, const float* values) {
  return hn::BitCast(d, hn::LoadU(hn::RebindToFloat<D>(), values));
}
template <class D>
HWY_INLINE hn::Vec<D> LoadBits(D d, const uint16_t* values) {
  return hn::LoadU(d, values);
}

HWY_INLINE FloatVector LoadFloats(const float* values) { return hn::LoadU(Floats(), values); }
HWY_INLINE FloatVector LoadFloats(const uint16_t* values) {
  const auto bits = hn::LoadU(hn::Rebind<uint16_t, Floats>(), values);
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  // One instruction. Without it, Highway's PromoteTo is wrong for infinity and NaN.
  return hn::PromoteTo(Floats(), hn::BitCast(hn::Rebind<hwy::float16_t, Floats>(), bits));
#else
  return HalvesToFloats(Floats(), bits);
#endif
}

// Whether a sum is not finite.
HWY_INLINE bool IsSuspect(FloatVector sums) {
  // x - x is 0 for every finite x, else NaN.
  const Floats d;
  return !hn::AllTrue(d, hn::Eq(hn::Sub(sums, sums), hn::Zero(d)));
}

// Appends the positions first + bit. (Highway's Compress is no faster: with AVX2, GCC copies its
// table to the stack at each call.)
HWY_INLINE size_t AppendPositions(uint64_t bits, size_t first, uint32_t* passing, size_t count) {
  for (; bits != 0; bits &= bits - 1) {
    passing[count++] = static_cast<uint32_t>(first) + static_cast<uint32_t>(std::countr_zero(bits));
  }
  return count;
}

}  // namespace HWY_NAMESPACE
}  // namespace endcap
HWY_AFTER_NAMESPACE();

#endif
