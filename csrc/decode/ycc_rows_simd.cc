#include "decode/ycc_rows_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "decode/ycc_rows_simd.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, each target's own.
#include <hwy/highway.h>

#include "common/madd-inl.h"
#include "endcap/row_band.h"

HWY_BEFORE_NAMESPACE();
namespace endcap {
namespace HWY_NAMESPACE {

using Shorts = hn::ScalableTag<int16_t>;
using Bytes = hn::Rebind<uint8_t, Shorts>;
using Row16 = hn::Vec<Shorts>;

HWY_INLINE int Step() { return static_cast<int>(hn::Lanes(Shorts())); }
HWY_INLINE Row16 Widen(const uint8_t* from) {
  return hn::PromoteTo(Shorts(), hn::LoadU(Bytes(), from));
}
HWY_INLINE Row16 Triple(Row16 v) { return hn::Add(v, hn::Add(v, v)); }

void BlendRowsImpl(const uint8_t* near, const uint8_t* far, int width, int16_t* sums) {
  for (int x = 0; x < width; x += Step()) {
    hn::StoreU(hn::Add(Triple(Widen(near + x)), Widen(far + x)), Shorts(), sums + x);
  }
}

void CopyRowImpl(const uint8_t* row, int width, int16_t* sums) {
  for (int x = 0; x < width; x += Step()) hn::StoreU(Widen(row + x), Shorts(), sums + x);
}

void BlendRowsToBytesImpl(const uint8_t* near, const uint8_t* far, int width, int bias,
                          uint8_t* out) {
  const Shorts d;
  const Bytes d8;
  const auto rounding = hn::Set(d, static_cast<int16_t>(bias));
  for (int x = 0; x < width; x += Step()) {
    const auto sum = hn::Add(hn::Add(Triple(Widen(near + x)), Widen(far + x)), rounding);
    hn::StoreU(hn::DemoteTo(d8, hn::ShiftRight<2>(sum)), d8, out + x);
  }
}

// R = Y + 1.402 Cr, G = Y - 0.34414 Cb - 0.71414 Cr, B = Y + 1.772 Cb. The library rounds products
// with factors of 16 fractional bits; whole parts are added apart here, so that the rest fits
// 16-bit numbers. Red and blue round alike with 15 bits, for all of the 256 values.
constexpr int16_t kRedCr = 13173;     // 0.402 * 2^15
constexpr int16_t kBlueCb = -7471;    // (1.772 - 2) * 2^15
constexpr int16_t kGreenCb = -22554;  // -0.34414 * 2^16
constexpr int16_t kGreenCr = 18734;   // (1 - 0.71414) * 2^16

HWY_INLINE Row16 GreenPart(Row16 cb, Row16 cr) {
  const Shorts d;
  const hn::RepartitionToWide<Shorts> d32;
  const auto factors =
      hn::BitCast(d, hn::Set(d32, static_cast<int32_t>(static_cast<uint16_t>(kGreenCb)) |
                                      (static_cast<int32_t>(kGreenCr) << 16)));
  const auto half = hn::Set(d32, 32768);
  const auto scaled = [&](Row16 pairs) HWY_ATTR {
    return hn::ShiftRight<16>(hn::Add(MulAddPairs(d32, pairs, factors), half));
  };
  // Both halves come from the same 128-bit blocks, so packing them restores the order.
  return hn::ReorderDemote2To(d, scaled(hn::InterleaveLower(d, cb, cr)),
                              scaled(hn::InterleaveUpper(d, cb, cr)));
}

struct Rgb16 {
  Row16 r, g, b;
};

// Chroma without its offset of 128. The results may be outside 0 to 255.
HWY_INLINE Rgb16 Convert(Row16 y, Row16 cb, Row16 cr) {
  const Shorts d;
  const auto red = hn::Add(cr, hn::MulFixedPoint15(cr, hn::Set(d, kRedCr)));
  const auto blue = hn::Add(hn::Add(cb, cb), hn::MulFixedPoint15(cb, hn::Set(d, kBlueCb)));
  return {hn::Add(y, red), hn::Add(hn::Sub(y, cr), GreenPart(cb, cr)), hn::Add(y, blue)};
}

template <class D8>
HWY_INLINE void StorePixels(hn::Vec<D8> r, hn::Vec<D8> g, hn::Vec<D8> b, D8 d8, int x, int channels,
                            uint8_t* out) {
  if (channels == 4) {
    hn::StoreInterleaved4(r, g, b, b, d8, out + ptrdiff_t{4} * x);
  } else {
    hn::StoreInterleaved3(r, g, b, d8, out + ptrdiff_t{3} * x);
  }
}

void GrayToRgbImpl(const uint8_t* y, int width, int channels, uint8_t* out) {
  const Bytes d8;
  for (int x = 0; x < width; x += Step()) {
    const auto luma = hn::LoadU(d8, y + x);
    StorePixels(luma, luma, luma, d8, x, channels, out);
  }
}

void YccToRgbImpl(const uint8_t* y, const uint8_t* cb, const uint8_t* cr, int width, int channels,
                  uint8_t* out) {
  const Bytes d8;
  const auto middle = hn::Set(Shorts(), int16_t{128});
  for (int x = 0; x < width; x += Step()) {
    const Rgb16 rgb =
        Convert(Widen(y + x), hn::Sub(Widen(cb + x), middle), hn::Sub(Widen(cr + x), middle));
    StorePixels(hn::DemoteTo(d8, rgb.r), hn::DemoteTo(d8, rgb.g), hn::DemoteTo(d8, rgb.b), d8, x,
                channels, out);
  }
}

// Two pixels for each sum, the even ones and the odd ones apart: as 16-bit numbers they are the low
// and the high bytes of the row.
template <int kShift>
HWY_INLINE void DoubleYccToRgbBy(const uint8_t* y, const int16_t* cb, const int16_t* cr, int width,
                                 int16_t even_bias, int16_t odd_bias, int channels, uint8_t* out) {
  const Shorts d;
  const hn::RebindToUnsigned<Shorts> du;
  const hn::Repartition<uint8_t, Shorts> d8;
  constexpr int kMiddle = 128 << kShift;
  static_assert(4 * hn::MaxLanes(d8) <= kRowSlackBytes);  // a vector of pixels past the end
  const auto bias_even = hn::Set(d, static_cast<int16_t>(even_bias - kMiddle));
  const auto bias_odd = hn::Set(d, static_cast<int16_t>(odd_bias - kMiddle));
  const auto even_of = [&](const int16_t* sums) HWY_ATTR {
    const auto sum = hn::Add(Triple(hn::LoadU(d, sums)), hn::LoadU(d, sums - 1));
    return hn::ShiftRight<kShift>(hn::Add(sum, bias_even));
  };
  const auto odd_of = [&](const int16_t* sums) HWY_ATTR {
    const auto sum = hn::Add(Triple(hn::LoadU(d, sums)), hn::LoadU(d, sums + 1));
    return hn::ShiftRight<kShift>(hn::Add(sum, bias_odd));
  };
  const auto low_byte = hn::Set(du, uint16_t{255});
  const auto join = [&](Row16 even, Row16 odd) HWY_ATTR {
    const auto top = hn::Set(d, int16_t{255});
    const auto low = hn::BitCast(du, hn::Min(hn::Max(even, hn::Zero(d)), top));
    const auto high = hn::BitCast(du, hn::Min(hn::Max(odd, hn::Zero(d)), top));
    return hn::BitCast(d8, hn::Or(low, hn::ShiftLeft<8>(high)));
  };
  for (int x = 0; 2 * x < width; x += Step()) {
    const auto luma = hn::BitCast(du, hn::LoadU(d8, y + ptrdiff_t{2} * x));
    const Rgb16 even =
        Convert(hn::BitCast(d, hn::And(luma, low_byte)), even_of(cb + x), even_of(cr + x));
    const Rgb16 odd =
        Convert(hn::BitCast(d, hn::ShiftRight<8>(luma)), odd_of(cb + x), odd_of(cr + x));
    StorePixels(join(even.r, odd.r), join(even.g, odd.g), join(even.b, odd.b), d8, 2 * x, channels,
                out);
  }
}

void DoubleYccToRgbImpl(const uint8_t* y, const int16_t* cb, const int16_t* cr, int width,
                        bool blended, int channels, uint8_t* out) {
  // The library's roundings: 8 and 7 of 16, 1 and 2 of 4.
  if (blended) {
    DoubleYccToRgbBy<4>(y, cb, cr, width, 8, 7, channels, out);
  } else {
    DoubleYccToRgbBy<2>(y, cb, cr, width, 1, 2, channels, out);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace endcap
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace endcap {
namespace {

HWY_EXPORT(BlendRowsImpl);
HWY_EXPORT(CopyRowImpl);
HWY_EXPORT(BlendRowsToBytesImpl);
HWY_EXPORT(GrayToRgbImpl);
HWY_EXPORT(YccToRgbImpl);
HWY_EXPORT(DoubleYccToRgbImpl);

}  // namespace

void BlendRows(const uint8_t* near, const uint8_t* far, int width, int16_t* sums) {
  HWY_DYNAMIC_DISPATCH(BlendRowsImpl)(near, far, width, sums);
}

void CopyRow(const uint8_t* row, int width, int16_t* sums) {
  HWY_DYNAMIC_DISPATCH(CopyRowImpl)(row, width, sums);
}

void BlendRowsToBytes(const uint8_t* near, const uint8_t* far, int width, int bias, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(BlendRowsToBytesImpl)(near, far, width, bias, out);
}

void GrayToRgb(const uint8_t* y, int width, int channels, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(GrayToRgbImpl)(y, width, channels, out);
}

void YccToRgb(const uint8_t* y, const uint8_t* cb, const uint8_t* cr, int width, int channels,
              uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(YccToRgbImpl)(y, cb, cr, width, channels, out);
}

void DoubleYccToRgb(const uint8_t* y, const int16_t* cb, const int16_t* cr, int width, bool blended,
                    int channels, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(DoubleYccToRgbImpl)(y, cb, cr, width, blended, channels, out);
}

}  // namespace endcap
#endif  // HWY_ONCE
