#include "preprocess/row_filter_simd.h"

#include <algorithm>

#include "preprocess/resize_arithmetic.h"
#include "preprocess/row_filter.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "preprocess/row_filter_simd.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, each target's own.
#include <hwy/highway.h>

#include "common/madd-inl.h"

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

// Two blocks of 128 bits where vectors are that long, else the first alone.
using WideBytes = hn::CappedTag<uint8_t, 32>;
using WideShorts = hn::RebindToSigned<hn::RepartitionToWide<WideBytes>>;
using WideWords = hn::RepartitionToWide<WideShorts>;
constexpr int kBlocks = static_cast<int>(hn::MaxLanes(WideBytes()) / 16);

template <typename T>
HWY_INLINE hn::Vec<WideBytes> LoadBlocks(const T* first, const T* second) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(first);
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  const auto* more = reinterpret_cast<const uint8_t*>(second);
  return hn::Combine(WideBytes(), hn::LoadU(Bytes(), more), hn::LoadU(Bytes(), bytes));
#else
  static_cast<void>(second);
  return hn::LoadU(Bytes(), bytes);
#endif
}

// `weights`: 8 numbers a column, its pair of weights four times.
void Opencv8Columns(const uint8_t* source, const int32_t* offset_bytes, const int16_t* weights,
                    int count, int16_t* out) {
  const WideShorts d16;
  const WideWords d32;
  constexpr uint8_t zero = 0x80;
  // The 16-bit pairs (this pixel, the next) of the four channels.
  alignas(16) static constexpr uint8_t kOrder[16] = {0, zero, 4, zero, 1, zero, 5, zero,
                                                     2, zero, 6, zero, 3, zero, 7, zero};
  const auto order = hn::LoadDup128(WideBytes(), kOrder);
  const auto filter = [&](int a, int b) HWY_ATTR {
    const auto pixels = LoadBlocks(source + offset_bytes[a], source + offset_bytes[b]);
    const auto pairs = hn::BitCast(d16, hn::TableLookupBytesOr0(pixels, order));
    const auto weight = LoadBlocks(weights + ptrdiff_t{8} * a, weights + ptrdiff_t{8} * b);
    return hn::ShiftRight<4>(MulAddPairs(d32, pairs, hn::BitCast(d16, weight)));
  };
  // Packing puts the blocks of the second beside those of the first.
  for (int x = 0; x < count; x += 2 * kBlocks) {
    hn::StoreU(hn::ReorderDemote2To(d16, filter(x, x + 2), filter(x + 1, x + 3)), d16,
               out + ptrdiff_t{4} * x);
  }
}

void Opencv8Rows(const int16_t* upper, const int16_t* lower, int32_t weight_upper,
                 int32_t weight_lower, int samples, uint8_t* out) {
  const hn::ScalableTag<int16_t> d16;
  const hn::Rebind<uint8_t, decltype(d16)> d8;
  const auto weight_a = hn::Set(d16, static_cast<int16_t>(weight_upper));
  const auto weight_b = hn::Set(d16, static_cast<int16_t>(weight_lower));
  const auto two = hn::Set(d16, int16_t{2});
  for (int i = 0; i < samples; i += static_cast<int>(hn::Lanes(d16))) {
    const auto a = hn::MulHigh(hn::LoadU(d16, upper + i), weight_a);
    const auto b = hn::MulHigh(hn::LoadU(d16, lower + i), weight_b);
    const auto sum = hn::ShiftRight<2>(hn::Add(hn::Add(a, b), two));
    hn::StoreU(hn::DemoteTo(d8, sum), d8, out + i);
  }
}

void Opencv8TurnedColumns(const uint8_t* a, const uint8_t* b, int32_t weights, int samples,
                          int16_t* out) {
  const hn::ScalableTag<int16_t> d16;
  const hn::Rebind<uint8_t, decltype(d16)> d8;
  const hn::RepartitionToWide<decltype(d16)> d32;
  const auto weight = hn::BitCast(d16, hn::Set(d32, weights));
  for (int i = 0; i < samples; i += static_cast<int>(hn::Lanes(d16))) {
    const auto first = hn::PromoteTo(d16, hn::LoadU(d8, a + i));
    const auto second = hn::PromoteTo(d16, hn::LoadU(d8, b + i));
    const auto lower = MulAddPairs(d32, hn::InterleaveLower(d16, first, second), weight);
    const auto upper = MulAddPairs(d32, hn::InterleaveUpper(d16, first, second), weight);
    hn::StoreU(hn::ReorderDemote2To(d16, hn::ShiftRight<4>(lower), hn::ShiftRight<4>(upper)), d16,
               out + i);
  }
}

// `weights`: 8 numbers an output, the first's four times and the second's four times.
void Opencv8TurnedRows(const int16_t* row, const int32_t* offset, const int16_t* weights, int count,
                       uint8_t* out) {
  const Shorts d16;
  const hn::Half<Shorts> half;
  const hn::Simd<uint8_t, 4, 0> pixel;
  const auto two = hn::Set(half, int16_t{2});
  for (int y = 0; y < count; ++y) {
    const auto product =
        hn::MulHigh(hn::LoadU(d16, row + offset[y]), hn::LoadU(d16, weights + ptrdiff_t{8} * y));
    const auto sum = hn::Add(hn::LowerHalf(half, product), hn::UpperHalf(half, product));
    const auto rounded = hn::ShiftRight<2>(hn::Add(sum, two));
    hn::StoreU(hn::DemoteTo(pixel, rounded), pixel, out + ptrdiff_t{4} * y);
  }
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
    hn::StoreU(hn::DemoteTo(pixel, sum), pixel, out + 4 * x);
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
    for (int k = 0; k < pair_count; ++k) {
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

void FloatColumns(const uint8_t* source, const int32_t* index, const float* weight, int taps,
                  int count, float* out) {
  const hn::Full128<float> df;
  const hn::Simd<uint8_t, 4, 0> pixel;
  for (int x = 0; x < count; ++x, index += taps, weight += taps) {
    auto sum = hn::Zero(df);
    for (int k = 0; k < taps; ++k) {
      const auto bytes = hn::LoadU(pixel, source + ptrdiff_t{4} * index[k]);
      const auto sample = hn::ConvertTo(df, hn::PromoteTo(Words(), bytes));
      sum = hn::Add(sum, hn::Mul(sample, hn::Set(df, weight[k])));
    }
    hn::StoreU(sum, df, out + 4 * x);
  }
}

void FloatRows(const float* const* rows, const float* weight, int taps, int samples, float* out) {
  const hn::ScalableTag<float> df;
  for (int i = 0; i < samples; i += static_cast<int>(hn::Lanes(df))) {
    auto sum = hn::Zero(df);
    for (int k = 0; k < taps; ++k) {
      sum = hn::Add(sum, hn::Mul(hn::LoadU(df, rows[k] + i), hn::Set(df, weight[k])));
    }
    hn::StoreU(sum, df, out + i);
  }
}

void FloatRowsToBytes(const float* const* rows, const float* weight, int taps, float sum_scale,
                      int samples, uint8_t* out) {
  const hn::ScalableTag<float> df;
  const hn::Rebind<uint8_t, decltype(df)> d8;
  const auto scale = hn::Set(df, sum_scale);
  for (int i = 0; i < samples; i += static_cast<int>(hn::Lanes(df))) {
    auto sum = hn::Zero(df);
    for (int k = 0; k < taps; ++k) {
      sum = hn::Add(sum, hn::Mul(hn::LoadU(df, rows[k] + i), hn::Set(df, weight[k])));
    }
    hn::StoreU(hn::DemoteTo(d8, hn::NearestInt(hn::Mul(sum, scale))), d8, out + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace endcap
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace endcap {
namespace {

HWY_EXPORT(Opencv8Columns);
HWY_EXPORT(Opencv8Rows);
HWY_EXPORT(Opencv8TurnedColumns);
HWY_EXPORT(Opencv8TurnedRows);
HWY_EXPORT(Pillow8Columns);
HWY_EXPORT(Pillow8Rows);
HWY_EXPORT(FloatColumns);
HWY_EXPORT(FloatRows);
HWY_EXPORT(FloatRowsToBytes);

int32_t Pair(int32_t first, int32_t second) {
  return static_cast<int32_t>(static_cast<uint32_t>(first & 0xFFFF) | static_cast<uint32_t>(second)
                                                                          << 16U);
}

constexpr int32_t kLowBits = 15;
int32_t Low(int32_t weight) { return weight & ((1 << kLowBits) - 1); }
int32_t High(int32_t weight) { return weight >> kLowBits; }

}  // namespace

// At the border both taps are the border's pixel, and one of them has weight 0: whichever it is,
// the pixel's weight is the sum, and what lies beside it does not matter.
PackedColumns Opencv8Simd::Prepare(AxisTaps columns) {
  PackedColumns packed;
  for (int x = 0; x < columns.size(); ++x) {
    const size_t entry = columns.Offset(x);
    const bool border = columns.index[entry] == columns.index[entry + 1];
    const int32_t first = columns.fixed_weight[entry];
    const int32_t second = columns.fixed_weight[entry + 1];
    const int32_t pair = border ? Pair(first + second, 0) : Pair(first, second);
    packed.offset_bytes.push_back(4 * columns.index[entry]);
    packed.packed.insert(packed.packed.end(), 4, pair);
  }
  packed.offset_bytes.resize(packed.offset_bytes.size() + 3);  // columns are taken four at a time
  packed.packed.resize(packed.packed.size() + 3 * 4);
  packed.taps = std::move(columns);
  return packed;
}

void Opencv8Simd::Horizontal(const uint8_t* source, const Columns& columns, int channels,
                             Intermediate* out) {
  const AxisTaps& taps = columns.taps;
  if (channels == 4) {
    HWY_DYNAMIC_DISPATCH(Opencv8Columns)
    (source, columns.offset_bytes.data(), reinterpret_cast<const int16_t*>(columns.packed.data()),
     taps.size(), out);
    return;
  }
  for (int x = 0; x < taps.size(); ++x) {
    const size_t entry = taps.Offset(x);
    const int32_t sum = OpencvHorizontal(source[taps.index[entry]], source[taps.index[entry + 1]],
                                         taps.fixed_weight[entry], taps.fixed_weight[entry + 1]);
    out[x] = static_cast<int16_t>(sum >> 4);
  }
}

void Opencv8Simd::Vertical(const Intermediate* const* rows, const AxisTaps& axis, int output,
                           int samples, Output* out) {
  const size_t entry = axis.Offset(output);
  HWY_DYNAMIC_DISPATCH(Opencv8Rows)
  (rows[0], rows[1], axis.fixed_weight[entry], axis.fixed_weight[entry + 1], samples, out);
}

// Beyond the border the border's pixel is repeated: there both taps count, each with a rounding of
// its own.
PackedColumns Opencv8Simd::PrepareTurned(const AxisTaps& rows, int width) {
  PackedColumns packed;
  for (int y = 0; y < rows.size(); ++y) {
    const size_t entry = rows.Offset(y);
    const int first = rows.index[entry];
    const bool before = first == rows.index[entry + 1] && first != width - 1;
    packed.offset_bytes.push_back(4 * (before ? first - 1 : first));
    for (size_t k = 0; k < 2; ++k) {
      const int32_t weight = rows.fixed_weight[entry + k];
      packed.packed.insert(packed.packed.end(), 2, Pair(weight, weight));
    }
  }
  packed.taps = rows;
  return packed;
}

void Opencv8Simd::TurnedColumns(const uint8_t* const* rows, const AxisTaps& columns, int output,
                                int width, TurnedIntermediate* out) {
  const size_t entry = columns.Offset(output);
  const int32_t pair = Pair(columns.fixed_weight[entry], columns.fixed_weight[entry + 1]);
  HWY_DYNAMIC_DISPATCH(Opencv8TurnedColumns)(rows[0], rows[1], pair, 4 * width, out);
  std::copy_n(out, 4, out - 4);
  std::copy_n(out + ptrdiff_t{4} * (width - 1), 4, out + ptrdiff_t{4} * width);
}

void Opencv8Simd::TurnedRows(const TurnedIntermediate* row, const Columns& rows, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(Opencv8TurnedRows)
  (row, rows.offset_bytes.data(), reinterpret_cast<const int16_t*>(rows.packed.data()),
   rows.taps.size(), out);
}

PackedColumns Pillow8Simd::Prepare(AxisTaps columns) {
  PackedColumns packed;
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

// Whole ratios of two and pictures that grow have fixed weights; they take the scalar loops.
void OpencvFloat8Simd::Horizontal(const uint8_t* source, const Columns& columns, int channels,
                                  Intermediate* out) {
  if (columns.fixed_weight.empty()) {
    FloatSimd::Horizontal(source, columns, channels, out);
  } else {
    OpencvFloat8Scalar::Horizontal(source, columns, channels, out);
  }
}

void OpencvFloat8Simd::Vertical(const Intermediate* const* rows, const AxisTaps& axis, int output,
                                int samples, Output* out) {
  if (axis.fixed_weight.empty()) {
    HWY_DYNAMIC_DISPATCH(FloatRowsToBytes)
    (rows, axis.float_weight.data() + axis.Offset(output), axis.taps, axis.sum_scale, samples, out);
  } else {
    OpencvFloat8Scalar::Vertical(rows, axis, output, samples, out);
  }
}

void FloatSimd::Horizontal(const uint8_t* source, const Columns& columns, int channels,
                           Intermediate* out) {
  if (channels == 4) {
    HWY_DYNAMIC_DISPATCH(FloatColumns)
    (source, columns.index.data(), columns.float_weight.data(), columns.taps, columns.size(), out);
  } else {
    FloatScalar::Horizontal(source, columns, channels, out);
  }
}

void FloatSimd::Vertical(const Intermediate* const* rows, const AxisTaps& axis, int output,
                         int samples, Output* out) {
  HWY_DYNAMIC_DISPATCH(FloatRows)
  (rows, axis.float_weight.data() + axis.Offset(output), axis.taps, samples, out);
}

}  // namespace endcap
#endif  // HWY_ONCE
