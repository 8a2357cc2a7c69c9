#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "common/row_band.h"
#include "preprocess/resize/resize_arithmetic.h"
#include "preprocess/resize/row_filter_scalar.h"
#include "preprocess/resize/row_filter_simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "preprocess/resize/row_filter_opencv8_simd.cc"
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

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
// The loop of Opencv8Columns where the pixels of each four columns lie within one vector: `places`
// has those of the first column's pair in it, of the second's, and so on.
void Opencv8NearColumns(const uint8_t* source, const NearColumns& columns, const int16_t* weights,
                        int count, int16_t* out) {
  const WideShorts d16;
  const WideWords d32;
  constexpr uint8_t zero = 0x80;
  // The 16-bit pairs (this pixel, the next) of the four channels, of the first and of the second
  // column in a block.
  alignas(16) static constexpr uint8_t kFirst[16] = {0, zero, 4, zero, 1, zero, 5, zero,
                                                     2, zero, 6, zero, 3, zero, 7, zero};
  alignas(16) static constexpr uint8_t kSecond[16] = {8,  zero, 12, zero, 9,  zero, 13, zero,
                                                      10, zero, 14, zero, 11, zero, 15, zero};
  const auto first = hn::LoadDup128(WideBytes(), kFirst);
  const auto second = hn::LoadDup128(WideBytes(), kSecond);
  const int32_t* offset_bytes = columns.offset_bytes.data();
  const int32_t* places = columns.places.data();
  for (int x = 0; x < count; x += 4, ++offset_bytes, places += 8, weights += 32, out += 16) {
    const auto pixels = hn::LoadU(d32, reinterpret_cast<const int32_t*>(source + *offset_bytes));
    const auto pairs =
        hn::BitCast(WideBytes(), hn::TableLookupLanes(pixels, hn::SetTableIndices(d32, places)));
    const auto filter = [&](hn::Vec<WideBytes> order, const int16_t* weight) HWY_ATTR {
      const auto samples = hn::BitCast(d16, hn::TableLookupBytesOr0(pairs, order));
      return hn::ShiftRight<4>(MulAddPairs(d32, samples, hn::LoadU(d16, weight)));
    };
    hn::StoreU(hn::ReorderDemote2To(d16, filter(first, weights), filter(second, weights + 16)), d16,
               out);
  }
}
#endif

// `weights`: 8 numbers a column, its pair of weights four times; of each four columns the first,
// the third, the second and the fourth, so that one load fits the blocks of two columns.
void Opencv8Columns(const uint8_t* source, const int32_t* offset_bytes, const NearColumns& near,
                    const int16_t* weights, int count, int16_t* out) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  if (!near.places.empty()) return Opencv8NearColumns(source, near, weights, count, out);
#else
  static_cast<void>(near);
#endif
  const WideShorts d16;
  const WideWords d32;
  constexpr uint8_t zero = 0x80;
  // The 16-bit pairs (this pixel, the next) of the four channels.
  alignas(16) static constexpr uint8_t kOrder[16] = {0, zero, 4, zero, 1, zero, 5, zero,
                                                     2, zero, 6, zero, 3, zero, 7, zero};
  const auto order = hn::LoadDup128(WideBytes(), kOrder);
  const auto filter = [&](int x, const int16_t* weight) HWY_ATTR {
    const auto pixels = LoadBlocks(source + offset_bytes[x], source + offset_bytes[x + 2]);
    const auto pairs = hn::BitCast(d16, hn::TableLookupBytesOr0(pixels, order));
    return hn::ShiftRight<4>(MulAddPairs(d32, pairs, hn::LoadU(d16, weight)));
  };
  // Packing puts the blocks of the second beside those of the first.
  for (int x = 0; x < count; x += 4, weights += 32, out += 16) {
    const auto pack = [&](int first) HWY_ATTR {
      return hn::ReorderDemote2To(d16, filter(x + first, weights + ptrdiff_t{4} * first),
                                  filter(x + first + 1, weights + 16 + ptrdiff_t{4} * first));
    };
    hn::StoreU(pack(0), d16, out);
    if constexpr (kBlocks == 1) hn::StoreU(pack(2), d16, out + 8);
  }
}

void Opencv8Rows(const int16_t* upper, const int16_t* lower, int32_t weight_upper,
                 int32_t weight_lower, int samples, uint8_t* out) {
  const hn::ScalableTag<int16_t> d16;
  const hn::Repartition<uint8_t, decltype(d16)> d8;
  const auto weight_a = hn::Set(d16, static_cast<int16_t>(weight_upper));
  const auto weight_b = hn::Set(d16, static_cast<int16_t>(weight_lower));
  const auto quarter = hn::Set(d16, int16_t{1 << 13});  // (x + 2) / 4, rounded down
  const auto lanes = static_cast<ptrdiff_t>(hn::Lanes(d16));
  const auto filter = [&](ptrdiff_t i) HWY_ATTR {
    const auto a = hn::MulHigh(hn::LoadU(d16, upper + i), weight_a);
    const auto b = hn::MulHigh(hn::LoadU(d16, lower + i), weight_b);
    return hn::MulFixedPoint15(hn::Add(a, b), quarter);
  };
  static_assert(2 * hn::MaxLanes(d8) <= kRowSlackBytes);
  for (ptrdiff_t i = 0; i < samples; i += 2 * lanes) {
    hn::StoreU(PackBytesInOrder(d8, filter(i), filter(i + lanes)), d8, out + i);
  }
}

void Opencv8TransposedColumns(const uint8_t* a, const uint8_t* b, int32_t weights, int samples,
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
void Opencv8TransposedRows(const int16_t* row, const int32_t* offset, const int16_t* weights,
                           int count, uint8_t* out) {
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

}  // namespace HWY_NAMESPACE
}  // namespace endcap
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace endcap {
namespace {

HWY_EXPORT(Opencv8Columns);
HWY_EXPORT(Opencv8Rows);
HWY_EXPORT(Opencv8TransposedColumns);
HWY_EXPORT(Opencv8TransposedRows);

// Empty where a group's pixels are too far apart.
NearColumns FindNearColumns(std::span<const int32_t> offset_bytes) {
  constexpr int32_t kPixels = 8;  // of a vector
  NearColumns near;
  for (size_t x = 0; x < offset_bytes.size(); x += 4) {
    const auto group = offset_bytes.subspan(x, std::min<size_t>(4, offset_bytes.size() - x));
    const auto [begin, last] = std::ranges::minmax(group);
    if ((last - begin) / 4 + 1 >= kPixels) return {};
    near.offset_bytes.push_back(begin);
    for (size_t i = 0; i < 4; ++i) {
      const int32_t place = i < group.size() ? (group[i] - begin) / 4 : 0;
      near.places.push_back(place);
      near.places.push_back(place + 1);
    }
  }
  return near;
}

}  // namespace

// At the border both taps are the border's pixel, and one of them has weight 0: whichever it is,
// the pixel's weight is the sum, and what lies beside it does not matter.
PackedTaps Opencv8Simd::Prepare(AxisTaps columns) {
  PackedTaps packed;
  // Columns are taken four at a time.
  packed.packed.resize(4 * static_cast<size_t>((columns.size() + 3) / 4 * 4));
  packed.offset_bytes.reserve(static_cast<size_t>(columns.size()) + 5);
  for (int x = 0; x < columns.size(); ++x) {
    const size_t entry = columns.Offset(x);
    const bool border = columns.index[entry] == columns.index[entry + 1];
    const int32_t first = columns.fixed_weight[entry];
    const int32_t second = columns.fixed_weight[entry + 1];
    const int32_t pair = border ? Pair(first + second, 0) : Pair(first, second);
    packed.offset_bytes.push_back(4 * columns.index[entry]);
    constexpr std::array<size_t, 4> kPlaces = {0, 2, 1, 3};
    const auto column = static_cast<size_t>(x);
    const size_t place = column / 4 * 4 + kPlaces[column % 4];
    std::fill_n(packed.packed.begin() + static_cast<ptrdiff_t>(4 * place), 4, pair);
  }
  packed.near = FindNearColumns(packed.offset_bytes);
  packed.offset_bytes.resize(packed.offset_bytes.size() + 5);
  packed.taps = std::move(columns);
  return packed;
}

void Opencv8Simd::Horizontal(const uint8_t* source, const Columns& columns, int channels,
                             Intermediate* out) {
  const AxisTaps& taps = columns.taps;
  if (channels == 4) {
    HWY_DYNAMIC_DISPATCH(Opencv8Columns)
    (source, columns.offset_bytes.data(), columns.near,
     reinterpret_cast<const int16_t*>(columns.packed.data()), taps.size(), out);
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
PackedTaps Opencv8Simd::PrepareTransposed(const AxisTaps& rows, int width) {
  PackedTaps packed;
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

void Opencv8Simd::TransposedColumns(const uint8_t* const* rows, const AxisTaps& columns, int output,
                                    int width, TransposedIntermediate* out) {
  const size_t entry = columns.Offset(output);
  const int32_t pair = Pair(columns.fixed_weight[entry], columns.fixed_weight[entry + 1]);
  HWY_DYNAMIC_DISPATCH(Opencv8TransposedColumns)(rows[0], rows[1], pair, 4 * width, out);
  std::copy_n(out, 4, out - 4);
  std::copy_n(out + ptrdiff_t{4} * (width - 1), 4, out + ptrdiff_t{4} * width);
}

void Opencv8Simd::TransposedRows(const TransposedIntermediate* row, const Columns& rows,
                                 uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(Opencv8TransposedRows)
  (row, rows.offset_bytes.data(), reinterpret_cast<const int16_t*>(rows.packed.data()),
   rows.taps.size(), out);
}

}  // namespace endcap
#endif  // HWY_ONCE
