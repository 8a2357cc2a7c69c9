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

// A constant that a loop needs in each round. Where registers are few, compilers make a constant
// that they know again in each round, by several instructions; one that they do not know stays in
// memory.
template <class V>
HWY_INLINE V Hoist(V constant) {
#if HWY_ARCH_X86 && (HWY_COMPILER_GCC || HWY_COMPILER_CLANG)
  asm("" : "+x"(constant.raw));
#endif
  return constant;
}

// Both as bytes, saturated to 0 to 255: in each block of 128 bits those of `low`, then those of
// `high`.
template <class D8, class V16>
HWY_INLINE hn::Vec<D8> PackBytes([[maybe_unused]] D8 d8, V16 low, V16 high) {
#if HWY_TARGET == HWY_AVX3
  return hn::Vec<D8>{_mm512_packus_epi16(low.raw, high.raw)};
#elif HWY_TARGET == HWY_AVX2
  return hn::Vec<D8>{_mm256_packus_epi16(low.raw, high.raw)};
#elif HWY_TARGET == HWY_SSE4
  return hn::Vec<D8>{_mm_packus_epi16(low.raw, high.raw)};
#else
  static_assert(hn::MaxLanes(d8) == 16);
  const hn::Half<D8> half;
  return hn::Combine(d8, hn::DemoteTo(half, high), hn::DemoteTo(half, low));
#endif
}

// Both as bytes, saturated to 0 to 255: those of `low`, then those of `high`.
template <class D8, class V16>
HWY_INLINE hn::Vec<D8> PackBytesInOrder(D8 d8, V16 low, V16 high) {
  const auto packed = PackBytes(d8, low, high);
#if HWY_TARGET == HWY_AVX3
  const auto order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
  return hn::Vec<D8>{_mm512_permutexvar_epi64(order, packed.raw)};
#elif HWY_TARGET == HWY_AVX2
  return hn::Vec<D8>{_mm256_permute4x64_epi64(packed.raw, _MM_SHUFFLE(3, 1, 2, 0))};
#else
  return packed;
#endif
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

// (1 - weight) * from + weight * to, as the scalar Interpolate of masks, bit for bit.
template <class D>
HWY_INLINE hn::Vec<D> Interpolate(D d, hn::Vec<D> from, hn::Vec<D> to, hn::Vec<D> weight) {
  return hn::Add(hn::Mul(hn::Sub(hn::Set(d, 1.0F), weight), from), hn::Mul(weight, to));
}

}  // namespace HWY_NAMESPACE
}  // namespace endcap
HWY_AFTER_NAMESPACE();

#endif
