#include "preprocess/pixels/yuv_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "preprocess/pixels/yuv_rows_simd.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, each target's own.
#include <hwy/highway.h>

#include "common/vector_operations-inl.h"
#include "common/ycc_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace endcap {
namespace HWY_NAMESPACE {

void SplitPairsImpl(const uint8_t* pairs, int count, uint8_t* first, uint8_t* second) {
  const hn::ScalableTag<uint8_t> d;
  const auto step = static_cast<int>(hn::Lanes(d));
  int x = 0;
  for (; x + step <= count; x += step) {
    hn::Vec<decltype(d)> a;
    hn::Vec<decltype(d)> b;
    hn::LoadInterleaved2(d, pairs + ptrdiff_t{2} * x, a, b);
    hn::StoreU(a, d, first + x);
    hn::StoreU(b, d, second + x);
  }
  for (; x < count; ++x) {
    first[x] = pairs[ptrdiff_t{2} * x];
    second[x] = pairs[ptrdiff_t{2} * x + 1];
  }
}

// Factors of 16 fractional bits as a whole number and a rest that fits 16-bit numbers. A whole
// number times 2^16 does not meet the rounding, so it is added afterwards.
struct SplitFactor {
  int16_t whole;
  int16_t rest;
};

constexpr SplitFactor Split(int32_t factor) {
  const int32_t whole = (factor + (1 << 15)) >> 16;
  return {static_cast<int16_t>(whole), static_cast<int16_t>(factor - whole * (1 << 16))};
}

class YuvColors {
  using Longs = hn::RepartitionToWide<Shorts>;
  struct Wide {
    hn::Vec<Longs> lower, upper;
  };

 public:
  HWY_INLINE explicit YuvColors(const YuvCoefficients& c)
      : offset_(static_cast<int16_t>(c.offset)),
        luma_(Split(c.luma)),
        red_cr_(Split(c.red_cr)),
        green_cb_(Split(c.green_cb)),
        green_cr_(Split(c.green_cr)),
        blue_cb_(Split(c.blue_cb)) {}

  HWY_INLINE Rgb16 operator()(Row16 y, Row16 cb, Row16 cr) const {
    const Shorts d;
    y = hn::Sub(y, hn::Set(d, offset_));
    const auto whole_luma = Whole(y, luma_);
    const auto red = Round(Products(y, luma_, cr, red_cr_));
    const auto blue = Round(Products(y, luma_, cb, blue_cb_));
    const Wide of_chroma = Products(cb, green_cb_, cr, green_cr_);
    const Wide of_luma = Products(y, luma_, hn::Zero(d), {0, 0});
    const auto green =
        Round({hn::Add(of_chroma.lower, of_luma.lower), hn::Add(of_chroma.upper, of_luma.upper)});
    return {
        hn::Add(hn::Add(whole_luma, Whole(cr, red_cr_)), red),
        hn::Add(hn::Add(whole_luma, green), hn::Add(Whole(cb, green_cb_), Whole(cr, green_cr_))),
        hn::Add(hn::Add(whole_luma, Whole(cb, blue_cb_)), blue)};
  }

 private:
  static HWY_INLINE Row16 Whole(Row16 v, SplitFactor factor) {
    return hn::Mul(v, hn::Set(Shorts(), factor.whole));
  }

  // Two factors beside each other, as MulAddPairs takes them.
  static HWY_INLINE Row16 Pair(SplitFactor first, SplitFactor second) {
    const auto low = static_cast<uint32_t>(static_cast<uint16_t>(first.rest));
    const auto high = static_cast<uint32_t>(static_cast<uint16_t>(second.rest));
    return hn::BitCast(Shorts(), hn::Set(Longs(), static_cast<int32_t>(low | high << 16)));
  }

  // a and b times the rests of their factors, added up.
  static HWY_INLINE Wide Products(Row16 a, SplitFactor of_a, Row16 b, SplitFactor of_b) {
    const Shorts d;
    const auto factors = Pair(of_a, of_b);
    return {MulAddPairs(Longs(), hn::InterleaveLower(d, a, b), factors),
            MulAddPairs(Longs(), hn::InterleaveUpper(d, a, b), factors)};
  }

  // Both halves come from the same 128-bit blocks, so packing them restores the order.
  static HWY_INLINE Row16 Round(Wide sums) {
    const auto half = hn::Set(Longs(), 1 << 15);
    return hn::ReorderDemote2To(Shorts(), hn::ShiftRight<16>(hn::Add(sums.lower, half)),
                                hn::ShiftRight<16>(hn::Add(sums.upper, half)));
  }

  int16_t offset_;
  SplitFactor luma_;
  SplitFactor red_cr_;
  SplitFactor green_cb_;
  SplitFactor green_cr_;
  SplitFactor blue_cb_;
};

void YuvToRgbImpl(const YuvCoefficients& coefficients, const uint8_t* y, const uint8_t* cb,
                  const uint8_t* cr, int width, int channels, uint8_t* out) {
  YccToRgbBy(YuvColors(coefficients), y, cb, cr, width, channels, out);
}

void DoubleYuvToRgbImpl(const YuvCoefficients& coefficients, const uint8_t* y, const int16_t* cb,
                        const int16_t* cr, int width, bool blended, int channels, uint8_t* out) {
  DoubleYccToRgbBy(YuvColors(coefficients), y, cb, cr, width, blended, channels, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace endcap
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace endcap {
namespace {

HWY_EXPORT(SplitPairsImpl);
HWY_EXPORT(YuvToRgbImpl);
HWY_EXPORT(DoubleYuvToRgbImpl);

}  // namespace

void SplitPairs(const uint8_t* pairs, int count, uint8_t* first, uint8_t* second) {
  HWY_DYNAMIC_DISPATCH(SplitPairsImpl)(pairs, count, first, second);
}

void YuvToRgb(const YuvCoefficients& coefficients, const uint8_t* y, const uint8_t* cb,
              const uint8_t* cr, int width, int channels, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(YuvToRgbImpl)(coefficients, y, cb, cr, width, channels, out);
}

void DoubleYuvToRgb(const YuvCoefficients& coefficients, const uint8_t* y, const int16_t* cb,
                    const int16_t* cr, int width, bool blended, int channels, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(DoubleYuvToRgbImpl)
  (coefficients, y, cb, cr, width, blended, channels, out);
}

}  // namespace endcap
#endif
