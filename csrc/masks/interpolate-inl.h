// Included once for each target of Highway; see hwy/foreach_target.h.
#if defined(ENDCAP_MASKS_INTERPOLATE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENDCAP_MASKS_INTERPOLATE_INL_H_
#undef ENDCAP_MASKS_INTERPOLATE_INL_H_
#else
#define ENDCAP_MASKS_INTERPOLATE_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace endcap {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// As the scalar Interpolate, bit for bit.
template <class D>
HWY_INLINE hn::Vec<D> Interpolate(D d, hn::Vec<D> from, hn::Vec<D> to, hn::Vec<D> weight) {
  return hn::Add(hn::Mul(hn::Sub(hn::Set(d, 1.0F), weight), from), hn::Mul(weight, to));
}

}  // namespace HWY_NAMESPACE
}  // namespace endcap
HWY_AFTER_NAMESPACE();

#endif
