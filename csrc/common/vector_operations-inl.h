// Included once for each target of Highway; see hwy/foreach_target.h.
#if defined(ENDCAP_COMMON_VECTOR_OPERATIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENDCAP_COMMON_VECTOR_OPERATIONS_INL_H_
#undef ENDCAP_COMMON_VECTOR_OPERATIONS_INL_H_
#else
#define ENDCAP_COMMON_VECTOR_OPERATIONS_INL_H_
#endif

#include <hwy/highway.h>

#include <array>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace endcap {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// A bit for each lane of a mask, the first lowest.
template <class D, class Mask>
HWY_INLINE uint64_t LaneBits(D d, Mask mask) {
  static_assert(hn::MaxLanes(d) <= 16);
  std::array<uint8_t, 8> bytes{};  // StoreMaskBits asks for 8 bytes
  hn::StoreMaskBits(d, mask, bytes.data());
  uint64_t bits = bytes[0];
  if constexpr (hn::MaxLanes(d) > 8) bits |= static_cast<uint64_t>(bytes[1]) << 8;
  return bits;
}

// HalfToFloat of each of the bits of binary16 numbers.
template <class D, class VHalf>
HWY_INLINE hn::Vec<D> HalvesToFloats(D d, VHalf halves) {
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  const auto magnitude_mask = hn::Set(du, 0x7FFFU);
  const auto rebias = hn::Set(d, 0x1p112F);  // exponent 15 to 127; makes subnormals normal
  const auto infinite = hn::Set(di, 0x7C00);
  const auto exponent = hn::Set(du, 0x7F800000U);
  const auto bits = hn::PromoteTo(du, halves);
  const auto magnitude = hn::And(bits, magnitude_mask);
  const auto sign = hn::ShiftLeft<16>(hn::AndNot(magnitude_mask, bits));
  const auto finite = hn::Mul(hn::BitCast(d, hn::ShiftLeft<13>(magnitude)), rebias);
  const auto is_special = hn::Not(hn::Lt(hn::BitCast(di, magnitude), infinite));
  const auto special = hn::IfThenElseZero(hn::RebindMask(du, is_special), exponent);
  return hn::BitCast(d, hn::Or(hn::Or(hn::BitCast(du, finite), special), sign));
}

// a[2i] * b[2i] + a[2i + 1] * b[2i + 1] in 32 bits.
template <class D32, class V16>
HWY_INLINE hn::Vec<D32> MulAddPairs(D32 d32, V16 a, V16 b) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4
  auto unused = hn::Zero(d32);  // on x86 all goes into the first sum, pairwise
  return hn::ReorderWidenMulAccumulate(d32, a, b, hn::Zero(d32), unused);
#else
  const auto even = [d32](V16 v) {
    return hn::ShiftRight<16>(hn::ShiftLeft<16>(hn::BitCast(d32, v)));
  };
  const auto odd = [d32](V16 v) { return hn::ShiftRight<16>(hn::BitCast(d32, v)); };
  return hn::Add(hn::Mul(even(a), even(b)), hn::Mul(odd(a), odd(b)));
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace endcap
HWY_AFTER_NAMESPACE();

#endif
