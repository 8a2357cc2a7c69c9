#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/half_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target.h includes this file once for each target: it has to come first.
#include <hwy/highway.h>

#include <algorithm>

#include "common/half.h"

HWY_BEFORE_NAMESPACE();
namespace endcap::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

void ConvertHalves(const uint16_t* halves, size_t count, float* floats) {
  const hn::CappedTag<float, 16> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<uint16_t, decltype(d)> dh;
  const auto magnitude_mask = hn::Set(du, 0x7FFFU);
  const auto rebias = hn::Set(d, 0x1p112F);  // exponent 15 to 127; makes subnormals normal
  const auto infinite = hn::Set(du, 0x7C00U);
  const auto exponent = hn::Set(du, 0x7F800000U);
  size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    const auto bits = hn::PromoteTo(du, hn::LoadU(dh, halves + i));
    const auto magnitude = hn::And(bits, magnitude_mask);
    const auto sign = hn::ShiftLeft<16>(hn::AndNot(magnitude_mask, bits));
    const auto finite = hn::Mul(hn::BitCast(d, hn::ShiftLeft<13>(magnitude)), rebias);
    const auto is_special = hn::Not(hn::Lt(hn::BitCast(di, magnitude), hn::BitCast(di, infinite)));
    const auto special = hn::IfThenElseZero(hn::RebindMask(du, is_special), exponent);
    const auto value = hn::Or(hn::Or(hn::BitCast(du, finite), special), sign);
    hn::StoreU(hn::BitCast(d, value), d, floats + i);
  }
  for (; i < count; ++i) floats[i] = HalfToFloat(halves[i]);
}

}  // namespace endcap::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace endcap {

HWY_EXPORT(ConvertHalves);

void HalvesToFloats(std::span<const uint16_t> halves, Implementation implementation,
                    float* floats) {
  if (implementation == Implementation::kSimd) {
    HWY_DYNAMIC_DISPATCH(ConvertHalves)(halves.data(), halves.size(), floats);
  } else {
    std::transform(halves.begin(), halves.end(), floats, HalfToFloat);
  }
}

}  // namespace endcap
#endif  // HWY_ONCE
