#include "decode/ycc_rows_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "decode/ycc_rows_simd.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, each target's own.
#include <hwy/highway.h>

#include "common/madd-inl.h"

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

template <int kShift>
HWY_INLINE void DoubleColumnsBy(const int16_t* sums, int width, int16_t even_bias, int16_t odd_bias,
                                uint8_t* out) {
  const Shorts d;
  const Bytes d8;
  const auto bias_even = hn::Set(d, even_bias);
  const auto bias_odd = hn::Set(d, odd_bias);
  for (int x = 0; x < width; x += Step()) {
    const auto own = Triple(hn::LoadU(d, sums + x));
    const auto even = hn::Add(hn::Add(own, hn::LoadU(d, sums + x - 1)), bias_even);
    const auto odd = hn::Add(hn::Add(own, hn::LoadU(d, sums + x + 1)), bias_odd);
    hn::StoreInterleaved2(hn::DemoteTo(d8, hn::ShiftRight<kShift>(even)),
                          hn::DemoteTo(d8, hn::ShiftRight<kShift>(odd)), d8, out + 2 * x);
  }
}

void DoubleColumnsImpl(const int16_t* sums, int width, bool blended, uint8_t* out) {
  if (blended) {
    DoubleColumnsBy<4>(sums, width, 8, 7, out);
  } else {
    DoubleColumnsBy<2>(sums, width, 1, 2, out);
  }
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

// round(v * factor / 65536) for |v| <= 128 and 16-bit factors.
HWY_INLINE Row16 Scaled(Row16 v, int16_t factor) {
  const auto twice = hn::MulHigh(hn::Add(v, v), hn::Set(Shorts(), factor));
  return hn::ShiftRight<1>(hn::Add(twice, hn::Set(Shorts(), int16_t{1})));
}

// R = Y + 1.402 Cr, G = Y - 0.34414 Cb - 0.71414 Cr, B = Y + 1.772 Cb in 16-bit fixed point; whole
// parts of the factors are added apart, so that the rest fits 16 bits.
constexpr int16_t kRedCr = 26345;     // 0.402 * 65536
constexpr int16_t kBlueCb = -14942;   // (1.772 - 2) * 65536
constexpr int16_t kGreenCb = -22554;  // -0.34414 * 65536
constexpr int16_t kGreenCr = 18734;   // (1 - 0.71414) * 65536

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

template <bool kFour>
HWY_INLINE void YccToRgbBy(const uint8_t* y, const uint8_t* cb, const uint8_t* cr, int width,
                           uint8_t* out) {
  const Shorts d;
  const Bytes d8;
  const auto zero_chroma = hn::Set(d, int16_t{128});
  for (int x = 0; x < width; x += Step()) {
    const auto luma = Widen(y + x);
    const auto blue_chroma = hn::Sub(Widen(cb + x), zero_chroma);
    const auto red_chroma = hn::Sub(Widen(cr + x), zero_chroma);
    const auto red = hn::Add(luma, hn::Add(red_chroma, Scaled(red_chroma, kRedCr)));
    const auto green = hn::Add(hn::Sub(luma, red_chroma), GreenPart(blue_chroma, red_chroma));
    const auto blue =
        hn::Add(hn::Add(luma, hn::Add(blue_chroma, blue_chroma)), Scaled(blue_chroma, kBlueCb));
    const auto r = hn::DemoteTo(d8, red);
    const auto g = hn::DemoteTo(d8, green);
    const auto b = hn::DemoteTo(d8, blue);
    if constexpr (kFour) {
      hn::StoreInterleaved4(r, g, b, b, d8, out + 4 * x);
    } else {
      hn::StoreInterleaved3(r, g, b, d8, out + 3 * x);
    }
  }
}

void YccToRgbImpl(const uint8_t* y, const uint8_t* cb, const uint8_t* cr, int width, int channels,
                  uint8_t* out) {
  if (channels == 4) {
    YccToRgbBy<true>(y, cb, cr, width, out);
  } else {
    YccToRgbBy<false>(y, cb, cr, width, out);
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
HWY_EXPORT(DoubleColumnsImpl);
HWY_EXPORT(BlendRowsToBytesImpl);
HWY_EXPORT(YccToRgbImpl);

}  // namespace

void BlendRows(const uint8_t* near, const uint8_t* far, int width, int16_t* sums) {
  HWY_DYNAMIC_DISPATCH(BlendRowsImpl)(near, far, width, sums);
}

void CopyRow(const uint8_t* row, int width, int16_t* sums) {
  HWY_DYNAMIC_DISPATCH(CopyRowImpl)(row, width, sums);
}

void DoubleColumns(int16_t* sums, int width, bool blended, uint8_t* out) {
  // At the borders the filter's neighbour is the border itself.
  sums[-1] = sums[0];
  sums[width] = sums[width - 1];
  HWY_DYNAMIC_DISPATCH(DoubleColumnsImpl)(sums, width, blended, out);
}

void BlendRowsToBytes(const uint8_t* near, const uint8_t* far, int width, int bias, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(BlendRowsToBytesImpl)(near, far, width, bias, out);
}

void YccToRgb(const uint8_t* y, const uint8_t* cb, const uint8_t* cr, int width, int channels,
              uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(YccToRgbImpl)(y, cb, cr, width, channels, out);
}

}  // namespace endcap
#endif  // HWY_ONCE
