#include <algorithm>
#include <array>
#include <cstring>

#include "decode/scaled_inverse_dct.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "decode/scaled_inverse_dct_simd.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, each target's own.
#include <hwy/highway.h>

#include "decode/inverse_dct-inl.h"

HWY_BEFORE_NAMESPACE();
namespace endcap {
namespace HWY_NAMESPACE {

// The values of the transform along rows or columns: behind the first eight there are up to six.
template <int size>
struct ScaledBlock {
  HWY_INLINE ScaledBlock() {}  // see Block
  Row v[size];
};

// Of the first pass: sums of coefficients in the range of an image fit 16 bits.
struct FirstPass {
  static constexpr int kBits = kDctFactorBits - kDctFirstPassBits;

  static HWY_INLINE Row Narrow(Sum low, Sum high) {
    // Both halves come from the same 128-bit blocks, so packing them restores the order.
    return hn::ReorderDemote2To(Coefficients(), hn::ShiftRight<kBits>(low),
                                hn::ShiftRight<kBits>(high));
  }
};

// Of the second: 10 bits are looked at, see WrappedSample.
struct SecondPass {
  static constexpr int kBits = kDctFactorBits + kDctFirstPassBits + 3;

  static HWY_INLINE Row Narrow(Sum low, Sum high) {
    constexpr int kSampleBits = 10;
    constexpr int kUnused = 32 - kBits - kSampleBits;
    return hn::ReorderDemote2To(Coefficients(),
                                hn::ShiftRight<32 - kSampleBits>(hn::ShiftLeft<kUnused>(low)),
                                hn::ShiftRight<32 - kSampleBits>(hn::ShiftLeft<kUnused>(high)));
  }
};

// The part of four frequencies in one value: `first`, the next but one, and so on.
template <int size, int rows, int value, int first>
HWY_INLINE WideRow SumOfFrequencies(const RowPair& low_pair, const RowPair& high_pair) {
  constexpr DctFactors kFactors = kDctFactors<size>[value];
  WideRow sum = Multiply(low_pair, kFactors[first], kFactors[first + 2]);
  if constexpr (rows == 8 && size > first + 4) {
    sum = Add(sum, Multiply(high_pair, kFactors[first + 4], kFactors[first + 6]));
  }
  return sum;
}

// The values from `value` on that lie in the first half, those that lie as far from the other end,
// and the one in the middle.
template <class Pass, int size, int rows, int value = 0>
HWY_INLINE void TransformValues(const RowPair (&pairs)[4], Row* values) {
  const Sum half = hn::Set(Sums(), 1 << (Pass::kBits - 1));
  const WideRow even =
      Add(SumOfFrequencies<size, rows, value, 0>(pairs[0], pairs[2]), {half, half});
  if constexpr (2 * value + 1 == size) {
    values[value] = Pass::Narrow(even.low, even.high);
  } else {
    const WideRow odd = SumOfFrequencies<size, rows, value, 1>(pairs[1], pairs[3]);
    values[value] = Pass::Narrow(hn::Add(even.low, odd.low), hn::Add(even.high, odd.high));
    values[size - 1 - value] =
        Pass::Narrow(hn::Sub(even.low, odd.low), hn::Sub(even.high, odd.high));
    if constexpr (2 * value + 2 < size) TransformValues<Pass, size, rows, value + 1>(pairs, values);
  }
}

// The transform along `frequencies` to `size` values. rows: those behind are 0, and not read.
template <class Pass, int size, int rows>
HWY_INLINE void TransformScaled(const Row* frequencies, Row* values) {
  const Row* f = frequencies;
  // The last two stay as they are where they are not read.
  RowPair pairs[4] = {Interleave(f[0], f[2]), Interleave(f[1], f[3]), Interleave(f[0], f[2]),
                      Interleave(f[1], f[3])};
  if constexpr (rows == 8 && size > 4) pairs[2] = Interleave(f[4], f[6]);
  if constexpr (rows == 8 && size > 5) pairs[3] = Interleave(f[5], f[7]);
  TransformValues<Pass, size, rows>(pairs, values);
}

// Loads the dequantised coefficients of `rows` rows. Returns whether those that are used are in the
// range of an image, in which no sum of the first pass leaves 16 bits.
template <int size, int rows>
HWY_INLINE bool LoadInRange(const int16_t* coefficients, const int16_t* quantization,
                            Block& block) {
  const Coefficients d;
  constexpr int kBits = kDctFactorBits - kDctFirstPassBits;
  constexpr int16_t kMaxInColumn = ((INT16_MAX << kBits) - (1 << (kBits - 1))) / kMaxDctFactor;
  auto beyond_15_bits = hn::Zero(d);
  auto in_column = hn::Zero(d);
  HWY_UNROLL(8)
  for (int row = 0; row < rows; ++row) {
    const auto coefficient = hn::Load(d, coefficients + static_cast<size_t>(row) * kLanes);
    const auto factor = hn::Load(d, quantization + static_cast<size_t>(row) * kLanes);
    block.v[row] = hn::Mul(coefficient, factor);
    if (row >= size) continue;
    beyond_15_bits = hn::Or(beyond_15_bits, hn::MulFixedPoint15(coefficient, factor));
    in_column = hn::SaturatedAdd(in_column, hn::Abs(block.v[row]));
  }
  const auto outside =
      hn::Or(hn::Ne(beyond_15_bits, hn::Zero(d)), hn::Gt(in_column, hn::Set(d, kMaxInColumn)));
  return hn::AllFalse(d, outside);
}

// Puts the first `count` of each block's eight samples beside those of the next block, in each 128
// bits.
template <int count, class V>
HWY_INLINE V CloseUp(V samples) {
  const hn::DFromV<V> d;
  if constexpr (hn::MaxLanes(d) == 8) {
    return samples;
  } else {
    alignas(16) constexpr auto kOrder = [] {
      std::array<uint8_t, 16> order{};
      for (size_t i = 0; i < order.size(); ++i) {
        order[i] = static_cast<uint8_t>(i < size_t{2} * count ? i / count * 8 + i % count : 0x80);
      }
      return order;
    }();
    return hn::TableLookupBytesOr0(samples, hn::LoadDup128(d, kOrder.data()));
  }
}

// Puts a row's samples of each block, the first `count` of eight, at place `first` of the block's
// `size`.
template <int size, int first, int count, class V>
HWY_INLINE void PutSamples(V samples, uint8_t* to) {
  constexpr size_t kBlocks = kLanes / 8;
  // Blocks whose samples follow each other.
  constexpr size_t kTogether = count == size ? std::min<size_t>(kBlocks, 2) : 1;
  HWY_ALIGN uint8_t stored[kLanes];
  hn::Store(kTogether == 1 ? samples : CloseUp<count>(samples), hn::DFromV<V>(), stored);
  HWY_UNROLL(8)
  for (size_t block = 0; block < kBlocks; block += kTogether) {
    std::memcpy(to + block * size + first, stored + 8 * block, kTogether * count);
  }
}

// The samples of a second pass to three columns and rows.
HWY_INLINE void PutThreeColumns(const ScaledBlock<3>& columns, SampleBlock to) {
  const Bytes d;
  constexpr size_t kRowBytes = kLanes / 2;  // three samples of each block and one too many
  alignas(16) constexpr auto kOrder = [] {
    std::array<uint8_t, 16> order{};
    for (size_t i = 0; i < order.size(); ++i) {
      const size_t sample = i % kRowBytes;
      const size_t in_row = sample / 3 * 4 + sample % 3;
      order[i] = static_cast<uint8_t>(in_row < kRowBytes ? i - sample + in_row : 0x80);
    }
    return order;
  }();
  Block block;
  HWY_UNROLL(3)
  for (int x = 0; x < 3; ++x) block.v[x] = columns.v[x];
  block.v[3] = hn::Zero(Coefficients());
  const auto rows = hn::BitCast(d, FourColumnsToRows(block));
  HWY_ALIGN uint8_t stored[4 * kRowBytes];
  hn::Store(hn::TableLookupBytesOr0(rows, hn::LoadDup128(d, kOrder.data())), d, stored);
  HWY_UNROLL(3)
  for (size_t row = 0; row < 3; ++row) {
    std::memcpy(to.Row(row), stored + row * kRowBytes, kRowBytes / 4 * 3);
  }
}

// The samples of a second pass: `kRows` rows of the columns from `first` on.
template <int size, int first, size_t kRows>
HWY_INLINE void PutColumns(const ScaledBlock<size>& columns, SampleBlock to) {
  constexpr int kColumns = std::min(size - first, 8);
  Block block;
  HWY_UNROLL(8)
  for (int x = 0; x < 8; ++x) {
    block.v[x] = x < kColumns ? columns.v[first + x] : hn::Zero(Coefficients());
  }
  SampleRows rows;
  ColumnsToRows(block, rows);
  HWY_UNROLL(8)
  for (size_t row = 0; row < kRows; ++row) {
    PutSamples<size, first, kColumns>(rows.v[row], to.Row(row));
  }
}

// The second pass of up to eight rows, `first_row` and those behind it, and their samples.
template <int size, int rows, int first_row>
HWY_INLINE void TransformRows(const Row* first_pass, SampleBlock to) {
  constexpr size_t kRows = std::min(size - first_row, 8);
  Block block;
  HWY_UNROLL(8)
  for (size_t row = 0; row < 8; ++row) {
    block.v[row] = row < kRows ? first_pass[first_row + row] : hn::Zero(Coefficients());
  }
  Transpose<rows>(block);
  ScaledBlock<size> columns;
  TransformScaled<SecondPass, size, rows>(block.v, columns.v);
  if constexpr (size == 3) {
    PutThreeColumns(columns, to);
  } else {
    PutColumns<size, 0, kRows>(columns, {to.Row(first_row), to.stride});
  }
  if constexpr (size > 8) PutColumns<size, 8, kRows>(columns, {to.Row(first_row), to.stride});
}

template <int size, int rows>
HWY_INLINE void TransformScaledBlocks(int16_t* coefficients, const int16_t* quantization,
                                      SampleBlock to) {
  Block block;
  const bool in_range = LoadInRange<size, rows>(coefficients, quantization, block);
  if (HWY_LIKELY(in_range)) {
    ScaledBlock<size> first_pass;
    TransformScaled<FirstPass, size, rows>(block.v, first_pass.v);
    TransformRows<size, rows, 0>(first_pass.v, to);
    if constexpr (size > 8) TransformRows<size, rows, 8>(first_pass.v, to);
  } else {
    InverseDctInWideIntegers({size, kDctFactors<size>}, coefficients, quantization, int{kLanes / 8},
                             to);
  }
}

// The first coefficient is the only one: all samples of a block are equal.
template <int size>
HWY_INLINE void FillScaledBlocks(const int16_t* coefficients, const int16_t* quantization,
                                 SampleBlock to) {
  for (size_t block = 0; block < kLanes / 8; ++block) {
    const int32_t eighths = int32_t{coefficients[8 * block]} * quantization[8 * block];
    const uint8_t sample = WrappedSample(static_cast<uint32_t>((eighths + 4) >> 3));
    for (int row = 0; row < size; ++row) {
      std::memset(to.Row(row) + block * size, sample, size);
    }
  }
}

template <int size>
void ScaledInverseDct(int16_t* coefficients, const int16_t* quantization, int last_place,
                      SampleBlock to) {
  const int used_rows = RowsUpTo(last_place);
  switch (used_rows) {
    case 1:
      FillScaledBlocks<size>(coefficients, quantization, to);
      break;
    case 4:
      TransformScaledBlocks<size, 4>(coefficients, quantization, to);
      break;
    default:
      TransformScaledBlocks<size, 8>(coefficients, quantization, to);
      break;
  }
  std::fill_n(coefficients, static_cast<size_t>(used_rows) * kLanes, int16_t{0});
}

void AddScaledKernels(InverseDctKernels& kernels) {
  kernels.by_size[3] = ScaledInverseDct<3>;
  kernels.by_size[5] = ScaledInverseDct<5>;
  kernels.by_size[6] = ScaledInverseDct<6>;
  kernels.by_size[10] = ScaledInverseDct<10>;
}

}  // namespace HWY_NAMESPACE
}  // namespace endcap
HWY_AFTER_NAMESPACE();
