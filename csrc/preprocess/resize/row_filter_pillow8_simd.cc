#include <utility>

#include "preprocess/resize/resize_arithmetic.h"
#include "preprocess/resize/row_filter_scalar.h"
#include "preprocess/resize/row_filter_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "preprocess/resize/row_filter_pillow8_simd.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, each target's own.
#include <hwy/highway.h>

#include "common/vector_operations-inl.h"

HWY_BEFORE_NAMESPACE();
namespace endcap {
namespace HWY_NAMESPACE {

using Bytes = hn::Full128<uint8_t>;
using Shorts = hn::Full128<int16_t>;
using Words = hn::Full128<int32_t>;

// The 16-bit pairs (pixel first, pixel first + 1) of each of the four channels.
template <int kFirst>
HWY_INLINE hn::Vec<Shorts> PixelPairs(hn::Vec<Bytes> pixels) {
  constexpr uint8_t a = 4 * kFirst;
  constexpr uint8_t b = a + 4;
  constexpr uint8_t zero = 0x80;
  alignas(16) static constexpr uint8_t kOrder[16] = {
      a,     zero, b,     zero, a + 1, zero, b + 1, zero,  // R, G
      a + 2, zero, b + 2, zero, a + 3, zero, b + 3, zero,  // B, the fourth
  };
  return hn::BitCast(Shorts(), hn::TableLookupBytesOr0(pixels, hn::Load(Bytes(), kOrder)));
}

HWY_INLINE hn::Vec<Shorts> SameWeights(int32_t pair) {
  return hn::BitCast(Shorts(), hn::Set(Words(), pair));
}

// Weights of 22 bits are taken apart into a high and a low part of 15 bits, so that 16-bit products
// do; the sums are put together again without loss.
void Pillow8Columns(const uint8_t* source, const int32_t* offset_bytes, const int32_t* group_count,
                    const int32_t* weights, int count, uint8_t* out) {
  const Words d32;
  const hn::Simd<uint8_t, 4, 0> pixel;
  const auto half = hn::Set(d32, kPillowHalf);
  for (int x = 0; x < count; ++x) {
    const uint8_t* from = source + offset_bytes[x];
    auto low = half;
    auto high = hn::Zero(d32);
    for (int group = 0; group < group_count[x]; ++group, from += 16, weights += 4) {
      const auto pixels = hn::LoadU(Bytes(), from);
      const auto first = PixelPairs<0>(pixels);
      const auto second = PixelPairs<2>(pixels);
      low = hn::Add(low, MulAddPairs(d32, first, SameWeights(weights[0])));
      low = hn::Add(low, MulAddPairs(d32, second, SameWeights(weights[1])));
      high = hn::Add(high, MulAddPairs(d32, first, SameWeights(weights[2])));
      high = hn::Add(high, MulAddPairs(d32, second, SameWeights(weights[3])));
    }
    const auto sum = hn::ShiftRight<kPillowBits>(hn::Add(low, hn::ShiftLeft<15>(high)));
    hn::StoreU(hn::DemoteTo(pixel, sum), pixel, out + ptrdiff_t{4} * x);
  }
}

// `weights`: for each pair of rows the pair of low parts, then the pair of high ones.
void Pillow8Rows(const uint8_t* const* rows, const int32_t* weights, int pair_count, int samples,
                 uint8_t* out) {
  const hn::ScalableTag<int16_t> d16;
  const hn::Rebind<uint8_t, decltype(d16)> d8;
  const hn::RepartitionToWide<decltype(d16)> d32;
  const auto half = hn::Set(d32, kPillowHalf);
  const auto zero = hn::Zero(d32);
  for (int i = 0; i < samples; i += static_cast<int>(hn::Lanes(d16))) {
    auto low_a = half;
    auto low_b = half;
    auto high_a = zero;
    auto high_b = zero;
    for (ptrdiff_t k = 0; k < pair_count; ++k) {
      const auto upper = hn::PromoteTo(d16, hn::LoadU(d8, rows[2 * k] + i));
      const auto lower = hn::PromoteTo(d16, hn::LoadU(d8, rows[2 * k + 1] + i));
      const auto a = hn::InterleaveLower(d16, upper, lower);
      const auto b = hn::InterleaveUpper(d16, upper, lower);
      const auto weight_low = hn::BitCast(d16, hn::Set(d32, weights[2 * k]));
      const auto weight_high = hn::BitCast(d16, hn::Set(d32, weights[2 * k + 1]));
      low_a = hn::Add(low_a, MulAddPairs(d32, a, weight_low));
      low_b = hn::Add(low_b, MulAddPairs(d32, b, weight_low));
      high_a = hn::Add(high_a, MulAddPairs(d32, a, weight_high));
      high_b = hn::Add(high_b, MulAddPairs(d32, b, weight_high));
    }
    const auto a = hn::ShiftRight<kPillowBits>(hn::Add(low_a, hn::ShiftLeft<15>(high_a)));
    const auto b = hn::ShiftRight<kPillowBits>(hn::Add(low_b, hn::ShiftLeft<15>(high_b)));
    // Both halves come from the same 128-bit blocks, so packing them restores the order.
    hn::StoreU(hn::DemoteTo(d8, hn::ReorderDemote2To(d16, a, b)), d8, out + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace endcap
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace endcap {
namespace {

HWY_EXPORT(Pillow8Columns);
HWY_EXPORT(Pillow8Rows);

constexpr int32_t kLowBits = 15;
int32_t Low(int32_t weight) { return weight & ((1 << kLowBits) - 1); }
int32_t High(int32_t weight) { return weight >> kLowBits; }

}  // namespace

PackedTaps Pillow8Simd::Prepare(AxisTaps columns) {
  PackedTaps packed;
  std::vector<int32_t> weights;
  for (int x = 0; x < columns.size(); ++x) {
    const int first = columns.First(x);
    const int groups = (columns.Last(x) - first) / 4 + 1;
    weights.assign(static_cast<size_t>(groups) * 4, 0);
    for (size_t entry = columns.Offset(x); entry < columns.Offset(x + 1); ++entry) {
      weights[static_cast<size_t>(columns.index[entry] - first)] += columns.fixed_weight[entry];
    }
    for (size_t i = 0; i < weights.size(); i += 4) {
      for (const auto part : {Low, High}) {
        packed.packed.push_back(Pair(part(weights[i]), part(weights[i + 1])));
        packed.packed.push_back(Pair(part(weights[i + 2]), part(weights[i + 3])));
      }
    }
    packed.offset_bytes.push_back(4 * first);
    packed.group_count.push_back(groups);
  }
  packed.taps = std::move(columns);
  return packed;
}

void Pillow8Simd::Horizontal(const uint8_t* source, const Columns& columns, int channels,
                             Intermediate* out) {
  if (channels == 4) {
    HWY_DYNAMIC_DISPATCH(Pillow8Columns)
    (source, columns.offset_bytes.data(), columns.group_count.data(), columns.packed.data(),
     columns.taps.size(), out);
  } else {
    Pillow8Scalar::Horizontal(source, columns.taps, channels, out);
  }
}

void Pillow8Simd::Vertical(const Intermediate* const* rows, const AxisTaps& axis, int output,
                           int samples, Output* out) {
  const auto taps = static_cast<size_t>(axis.taps);
  const int32_t* weight = axis.fixed_weight.data() + axis.Offset(output);
  const size_t pairs = (taps + 1) / 2;
  std::vector<const uint8_t*> paired(rows, rows + taps);
  if (taps % 2 == 1) paired.push_back(rows[taps - 1]);
  std::vector<int32_t> packed;
  packed.reserve(2 * pairs);
  for (size_t k = 0; k < taps; k += 2) {
    const int32_t second = k + 1 < taps ? weight[k + 1] : 0;
    packed.push_back(Pair(Low(weight[k]), Low(second)));
    packed.push_back(Pair(High(weight[k]), High(second)));
  }
  HWY_DYNAMIC_DISPATCH(Pillow8Rows)
  (paired.data(), packed.data(), static_cast<int>(pairs), samples, out);
}

}  // namespace endcap
#endif  // HWY_ONCE
