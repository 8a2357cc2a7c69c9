#include "common/ycc_rows_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/ycc_rows_simd.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, each target's own.
#include <hwy/highway.h>

#include "common/vector_operations-inl.h"
#include "common/ycc_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace endcap {
namespace HWY_NAMESPACE {

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

// Full-range BT.601, as JFIF has it.
class JfifColors {
 public:
  JfifColors() {
    const Shorts d;
    red_cr_ = Hoist(hn::Set(d, kRedCr));
    blue_cb_ = Hoist(hn::Set(d, kBlueCb));
    green_ = Hoist(
        hn::BitCast(d, hn::Set(Longs(), static_cast<int32_t>(static_cast<uint16_t>(kGreenCb)) |
                                            (static_cast<int32_t>(kGreenCr) << 16))));
    half_ = Hoist(hn::Set(Longs(), 32768));
  }

  HWY_INLINE Rgb16 operator()(Row16 y, Row16 cb, Row16 cr) const {
    const auto red = hn::Add(cr, hn::MulFixedPoint15(cr, red_cr_));
    const auto blue = hn::Add(hn::Add(cb, cb), hn::MulFixedPoint15(cb, blue_cb_));
    return {hn::Add(y, red), hn::Add(hn::Sub(y, cr), GreenPart(cb, cr)), hn::Add(y, blue)};
  }

 private:
  using Longs = hn::RepartitionToWide<Shorts>;

  HWY_INLINE Row16 GreenPart(Row16 cb, Row16 cr) const {
    const Shorts d;
    const auto scaled = [&](Row16 pairs) HWY_ATTR {
      return hn::ShiftRight<16>(hn::Add(MulAddPairs(Longs(), pairs, green_), half_));
    };
    // Both halves come from the same 128-bit blocks, so packing them restores the order.
    return hn::ReorderDemote2To(d, scaled(hn::InterleaveLower(d, cb, cr)),
                                scaled(hn::InterleaveUpper(d, cb, cr)));
  }

  Row16 red_cr_;
  Row16 blue_cb_;
  Row16 green_;  // those of Cb and Cr beside each other
  hn::Vec<Longs> half_;
};

void GrayToRgbImpl(const uint8_t* y, int width, int channels, uint8_t* out) {
  const Bytes d8;
  for (int x = 0; x < width; x += Step()) {
    const auto luma = hn::LoadU(d8, y + x);
    StorePixels(luma, luma, luma, d8, x, channels, out);
  }
}

void YccToRgbImpl(const uint8_t* y, const uint8_t* cb, const uint8_t* cr, int width, int channels,
                  uint8_t* out) {
  YccToRgbBy(JfifColors(), y, cb, cr, width, channels, out);
}

void DoubleYccToRgbImpl(const uint8_t* y, const int16_t* cb, const int16_t* cr, int width,
                        bool blended, int channels, uint8_t* out) {
  DoubleYccToRgbBy(JfifColors(), y, cb, cr, width, blended, channels, out);
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
