// Included once for each target of Highway; see hwy/foreach_target.h.
#if defined(ENDCAP_COMMON_LANE_BITS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENDCAP_COMMON_LANE_BITS_INL_H_
#undef ENDCAP_COMMON_LANE_BITS_INL_H_
#else
#define ENDCAP_COMMON_LANE_BITS_INL_H_
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

}  // namespace HWY_NAMESPACE
}  // namespace endcap
HWY_AFTER_NAMESPACE();

#endif
