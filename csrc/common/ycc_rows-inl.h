// Included once for each target of Highway; see hwy/foreach_target.h.
#if defined(ENDCAP_COMMON_YCC_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENDCAP_COMMON_YCC_ROWS_INL_H_
#undef ENDCAP_COMMON_YCC_ROWS_INL_H_
#else
#define ENDCAP_COMMON_YCC_ROWS_INL_H_
#endif

#include <hwy/highway.h>

#include "common/row_band.h"
#include "common/vector_operations-inl.h"

// Rows of Y, Cb and Cr to pixels, for any conversion of the colors; ycc_rows_simd.h says what the
// arguments are.

HWY_BEFORE_NAMESPACE();
namespace endcap {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Shorts = hn::ScalableTag<int16_t>;
using Bytes = hn::Rebind<uint8_t, Shorts>;
using Row16 = hn::Vec<Shorts>;

HWY_INLINE int Step() { return static_cast<int>(hn::Lanes(Shorts())); }
HWY_INLINE Row16 Widen(const uint8_t* from) {
  return hn::PromoteTo(Shorts(), hn::LoadU(Bytes(), from));
}
HWY_INLINE Row16 Triple(Row16 v) { return hn::Add(v, hn::Add(v, v)); }

struct Rgb16 {
  Row16 r, g, b;
};

template <class D8>
HWY_INLINE void StorePixels(hn::Vec<D8> r, hn::Vec<D8> g, hn::Vec<D8> b, D8 d8, int x, int channels,
                            uint8_t* out) {
  if (channels == 4) {
    hn::StoreInterleaved4(r, g, b, b, d8, out + ptrdiff_t{4} * x);
  } else {
    hn::StoreInterleaved3(r, g, b, d8, out + ptrdiff_t{3} * x);
  }
}

// `convert`: Rgb16 of luma and of chroma without its offset of 128; what it gives may be outside 0
// to 255.
template <class Convert>
HWY_INLINE void YccToRgbBy(const Convert& convert, const uint8_t* y, const uint8_t* cb,
                           const uint8_t* cr, int width, int channels, uint8_t* out) {
  const Shorts d;
  const hn::Repartition<uint8_t, Shorts> d8;
  const auto zero = hn::Zero(d8);
  const auto middle = Hoist(hn::Set(d, int16_t{128}));
  // Both halves come from the same blocks of 128 bits, so packing them restores the order.
  const auto lower = [&](hn::Vec<decltype(d8)> v)
                         HWY_ATTR { return hn::BitCast(d, hn::InterleaveLower(d8, v, zero)); };
  const auto upper = [&](hn::Vec<decltype(d8)> v)
                         HWY_ATTR { return hn::BitCast(d, hn::InterleaveUpper(d8, v, zero)); };
  static_assert(4 * hn::MaxLanes(d8) <= kRowSlackBytes);  // a vector of pixels past the end
  for (int x = 0; x < width; x += static_cast<int>(hn::Lanes(d8))) {
    const auto luma = hn::LoadU(d8, y + x);
    const auto blue = hn::LoadU(d8, cb + x);
    const auto red = hn::LoadU(d8, cr + x);
    const Rgb16 low =
        convert(lower(luma), hn::Sub(lower(blue), middle), hn::Sub(lower(red), middle));
    const Rgb16 high =
        convert(upper(luma), hn::Sub(upper(blue), middle), hn::Sub(upper(red), middle));
    StorePixels(PackBytes(d8, low.r, high.r), PackBytes(d8, low.g, high.g),
                PackBytes(d8, low.b, high.b), d8, x, channels, out);
  }
}

// Two pixels for each sum, the even ones and the odd ones apart: as 16-bit numbers they are the low
// and the high bytes of the row.
template <int kShift, class Convert>
HWY_INLINE void DoubleYccToRgbShifted(const Convert& convert, const uint8_t* y, const int16_t* cb,
                                      const int16_t* cr, int width, int16_t even_bias,
                                      int16_t odd_bias, int channels, uint8_t* out) {
  const Shorts d;
  const hn::RebindToUnsigned<Shorts> du;
  const hn::Repartition<uint8_t, Shorts> d8;
  constexpr int kMiddle = 128 << kShift;
  static_assert(4 * hn::MaxLanes(d8) <= kRowSlackBytes);  // a vector of pixels past the end
  const auto bias_even = Hoist(hn::Set(d, static_cast<int16_t>(even_bias - kMiddle)));
  const auto bias_odd = Hoist(hn::Set(d, static_cast<int16_t>(odd_bias - kMiddle)));
  const auto even_of = [&](const int16_t* sums) HWY_ATTR {
    const auto sum = hn::Add(Triple(hn::LoadU(d, sums)), hn::LoadU(d, sums - 1));
    return hn::ShiftRight<kShift>(hn::Add(sum, bias_even));
  };
  const auto odd_of = [&](const int16_t* sums) HWY_ATTR {
    const auto sum = hn::Add(Triple(hn::LoadU(d, sums)), hn::LoadU(d, sums + 1));
    return hn::ShiftRight<kShift>(hn::Add(sum, bias_odd));
  };
  const auto low_byte = Hoist(hn::Set(du, uint16_t{255}));
  alignas(16) static constexpr uint8_t kAlternate[16] = {0, 8,  1, 9,  2, 10, 3, 11,
                                                         4, 12, 5, 13, 6, 14, 7, 15};
  const auto alternate = hn::LoadDup128(d8, kAlternate);
  const auto join = [&](Row16 even, Row16 odd) HWY_ATTR {
    return hn::TableLookupBytes(PackBytes(d8, even, odd), alternate);
  };
  for (int x = 0; 2 * x < width; x += Step()) {
    const auto luma = hn::BitCast(du, hn::LoadU(d8, y + ptrdiff_t{2} * x));
    const Rgb16 even =
        convert(hn::BitCast(d, hn::And(luma, low_byte)), even_of(cb + x), even_of(cr + x));
    const Rgb16 odd =
        convert(hn::BitCast(d, hn::ShiftRight<8>(luma)), odd_of(cb + x), odd_of(cr + x));
    StorePixels(join(even.r, odd.r), join(even.g, odd.g), join(even.b, odd.b), d8, 2 * x, channels,
                out);
  }
}

template <class Convert>
HWY_INLINE void DoubleYccToRgbBy(const Convert& convert, const uint8_t* y, const int16_t* cb,
                                 const int16_t* cr, int width, bool blended, int channels,
                                 uint8_t* out) {
  // The library's roundings: 8 and 7 of 16, 1 and 2 of 4.
  if (blended) {
    DoubleYccToRgbShifted<4>(convert, y, cb, cr, width, 8, 7, channels, out);
  } else {
    DoubleYccToRgbShifted<2>(convert, y, cb, cr, width, 1, 2, channels, out);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace endcap
HWY_AFTER_NAMESPACE();

#endif
