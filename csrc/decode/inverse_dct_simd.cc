#include <algorithm>
#include <cstring>

#include "decode/inverse_dct.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "decode/inverse_dct_simd.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, each target's own.
#include <hwy/highway.h>

#include "decode/inverse_dct-inl.h"

HWY_BEFORE_NAMESPACE();
namespace endcap {
namespace HWY_NAMESPACE {

constexpr int16_t kOne = 1 << kDctFactorBits;

// a * 2^bits.
template <int bits>
HWY_INLINE WideRow Scale(Row a) {
  const Coefficients d;
  const Sums d32;
  const RowPair upper_halves = Interleave(hn::Zero(d), a);
  return {hn::ShiftRight<16 - bits>(hn::BitCast(d32, upper_halves.low)),
          hn::ShiftRight<16 - bits>(hn::BitCast(d32, upper_halves.high))};
}

// The sums without `bits` fractional bits. Where they leave 16 bits, libjpeg-turbo's code for x86
// saturates. Its code for Arm wraps them; of the second pass it takes the upper 16 bits and rounds
// them after that.
template <int bits>
HWY_INLINE Row Narrow(Sum low, Sum high) {
  const Coefficients d;
  // Both halves come from the same 128-bit blocks, so packing them restores the order.
#if HWY_ARCH_ARM
  if constexpr (bits > 16) {
    constexpr int kRest = bits - 16;
    const Row upper = hn::ConcatOdd(d, hn::BitCast(d, high), hn::BitCast(d, low));
    return hn::ShiftRight<kRest>(hn::SaturatedAdd(upper, hn::Set(d, int16_t{1 << (kRest - 1)})));
  } else {
    return hn::ConcatEven(d, hn::BitCast(d, hn::ShiftRight<bits>(high)),
                          hn::BitCast(d, hn::ShiftRight<bits>(low)));
  }
#else
  return hn::ReorderDemote2To(d, hn::ShiftRight<bits>(low), hn::ShiftRight<bits>(high));
#endif
}

// even + odd and even - odd, without `bits` fractional bits; `even` has Rounding<bits>() already.
template <int bits>
HWY_INLINE void AddAndSubtract(const WideRow& even, const WideRow& odd, Row& sum, Row& difference) {
  sum = Narrow<bits>(hn::Add(even.low, odd.low), hn::Add(even.high, odd.high));
  difference = Narrow<bits>(hn::Sub(even.low, odd.low), hn::Sub(even.high, odd.high));
}

// Factors of the one-dimensional transform with 13 fractional bits, of C. Loeffler, A. Ligtenberg,
// G. Moschytz, "Practical fast 1-D DCT algorithms with 11 multiplications" (1989), summed up where
// two of them meet the same value, which changes no bit.
constexpr int kC0298 = 2446;
constexpr int kC0390 = 3196;
constexpr int kC0541 = 4433;
constexpr int kC0765 = 6270;
constexpr int kC0899 = 7373;
constexpr int kC1175 = 9633;
constexpr int kC1501 = 12299;
constexpr int kC1847 = 15137;
constexpr int kC1961 = 16069;
constexpr int kC2053 = 16819;
constexpr int kC2562 = 20995;
constexpr int kC3072 = 25172;
// Those of its means of two and of four values.
constexpr int kC0211 = 1730;
constexpr int kC0509 = 4176;
constexpr int kC0601 = 4926;
constexpr int kC0720 = 5906;
constexpr int kC0850 = 6967;
constexpr int kC1061 = 8697;
constexpr int kC1272 = 10426;
constexpr int kC1451 = 11893;
constexpr int kC2172 = 17799;
constexpr int kC3624 = 29692;

template <int bits>
HWY_INLINE WideRow Rounding() {
  constexpr bool kRoundsLater = HWY_ARCH_ARM && bits > 16;  // in Narrow
  const Sum half = hn::Set(Sums(), kRoundsLater ? 0 : 1 << (bits - 1));
  return {half, half};
}

// The transform along `block.v`, with `bits` fractional bits fewer. Sums of two values wrap in
// 16 bits, those of products in 32; Narrow makes the results.
template <int bits>
HWY_INLINE void Transform(Block& block) {
  Row* v = block.v;
  const WideRow round = Rounding<bits>();
  const RowPair v26 = Interleave(v[2], v[6]);
  const RowPair v04 = Interleave(hn::Add(v[0], v[4]), hn::Sub(v[0], v[4]));
  const WideRow sum = Add(Multiply(v04, kOne, 0), round);
  const WideRow difference = Add(Multiply(v04, 0, kOne), round);
  const WideRow outer = Multiply(v26, kC0541 + kC0765, kC0541);
  const WideRow inner = Multiply(v26, kC0541, kC0541 - kC1847);
  const WideRow even0 = Add(sum, outer);
  const WideRow even3 = {hn::Sub(sum.low, outer.low), hn::Sub(sum.high, outer.high)};
  const WideRow even1 = Add(difference, inner);
  const WideRow even2 = {hn::Sub(difference.low, inner.low), hn::Sub(difference.high, inner.high)};

  const RowPair sums = Interleave(hn::Add(v[7], v[3]), hn::Add(v[5], v[1]));
  const WideRow z3 = Multiply(sums, kC1175 - kC1961, kC1175);
  const WideRow z4 = Multiply(sums, kC1175, kC1175 - kC0390);
  const RowPair v71 = Interleave(v[7], v[1]);
  const RowPair v53 = Interleave(v[5], v[3]);
  const WideRow odd3 = Add(Multiply(v71, kC0298 - kC0899, -kC0899), z3);
  const WideRow odd0 = Add(Multiply(v71, -kC0899, kC1501 - kC0899), z4);
  const WideRow odd2 = Add(Multiply(v53, kC2053 - kC2562, -kC2562), z4);
  const WideRow odd1 = Add(Multiply(v53, -kC2562, kC3072 - kC2562), z3);

  AddAndSubtract<bits>(even0, odd0, v[0], v[7]);
  AddAndSubtract<bits>(even1, odd1, v[1], v[6]);
  AddAndSubtract<bits>(even2, odd2, v[2], v[5]);
  AddAndSubtract<bits>(even3, odd3, v[3], v[4]);
}

// The same where v[4] to v[7] are 0.
template <int bits>
HWY_INLINE void TransformFour(Block& block) {
  Row* v = block.v;
  const WideRow round = Rounding<bits>();
  const RowPair v02 = Interleave(v[0], v[2]);
  const WideRow even0 = Add(Multiply(v02, kOne, kC0541 + kC0765), round);
  const WideRow even1 = Add(Multiply(v02, kOne, kC0541), round);
  const WideRow even2 = Add(Multiply(v02, kOne, -kC0541), round);
  const WideRow even3 = Add(Multiply(v02, kOne, -(kC0541 + kC0765)), round);
  const RowPair v31 = Interleave(v[3], v[1]);
  const WideRow odd0 = Multiply(v31, kC1175, kC1175 - kC0390 + kC1501 - kC0899);
  const WideRow odd1 = Multiply(v31, kC1175 - kC1961 + kC3072 - kC2562, kC1175);
  const WideRow odd2 = Multiply(v31, kC1175 - kC2562, kC1175 - kC0390);
  const WideRow odd3 = Multiply(v31, kC1175 - kC1961, kC1175 - kC0899);
  AddAndSubtract<bits>(even0, odd0, v[0], v[7]);
  AddAndSubtract<bits>(even1, odd1, v[1], v[6]);
  AddAndSubtract<bits>(even2, odd2, v[2], v[5]);
  AddAndSubtract<bits>(even3, odd3, v[3], v[4]);
}

// The transform to four values, each the mean of two of the eight; v[4], whose part in both cancels
// out, is not read. rows: those behind are 0.
template <int rows, int bits>
HWY_INLINE void TransformToFour(Block& block) {
  Row* v = block.v;
  const Row v6 = rows == 8 ? v[6] : hn::Zero(Coefficients());
  const WideRow mean = Add(Scale<kDctFactorBits + 1>(v[0]), Rounding<bits>());
  const WideRow others = Multiply(Interleave(v[2], v6), kC1847, -kC0765);
  const WideRow even0 = Add(mean, others);
  const WideRow even1 = {hn::Sub(mean.low, others.low), hn::Sub(mean.high, others.high)};
  const RowPair v31 = Interleave(v[3], v[1]);
  WideRow odd0 = Multiply(v31, kC0899, kC2562);
  WideRow odd1 = Multiply(v31, -kC2172, kC1061);
  if constexpr (rows == 8) {
    const RowPair v75 = Interleave(v[7], v[5]);
    odd0 = Add(odd0, Multiply(v75, -kC0509, -kC0601));
    odd1 = Add(odd1, Multiply(v75, -kC0211, kC1451));
  }
  AddAndSubtract<bits>(even0, odd0, v[0], v[3]);
  AddAndSubtract<bits>(even1, odd1, v[1], v[2]);
}

// The transform along `block.v` to `size` values, behind which zeros follow.
template <int size, int rows, int bits>
HWY_INLINE void TransformTo(Block& block) {
  if constexpr (size == 4) {
    TransformToFour<rows, bits>(block);
    for (int i = size; i < 8; ++i) block.v[i] = hn::Zero(Coefficients());
  } else if constexpr (rows == 8) {
    Transform<bits>(block);
  } else {
    TransformFour<bits>(block);
  }
}

// Loads `rows` rows of dequantised coefficients, and clears them.
template <int rows>
HWY_INLINE void Take(int16_t* coefficients, const int16_t* quantization, Block& block) {
  const Coefficients d;
  for (int row = 0; row < rows; ++row) {
    int16_t* at = coefficients + static_cast<size_t>(row) * kLanes;
    const Row factors = hn::Load(d, quantization + static_cast<size_t>(row) * kLanes);
    block.v[row] = hn::Mul(hn::Load(d, at), factors);
    hn::Store(hn::Zero(d), d, at);
  }
}

// From values around 0 to samples: of each block the first `size`.
template <int size>
HWY_INLINE void Put(const Row& row, uint8_t* to) {
  const Samples d;
  const auto samples = hn::DemoteTo(d, hn::SaturatedAdd(row, hn::Set(Coefficients(), 128)));
  if constexpr (size == 8) {
    hn::StoreU(samples, d, to);
  } else {
    const hn::Repartition<uint32_t, Samples> d32;
    const auto halves = hn::BitCast(d32, samples);
    const auto first_halves = hn::BitCast(d, hn::ConcatEven(d32, halves, halves));
    hn::StoreU(hn::LowerHalf(first_halves), hn::Half<Samples>(), to);
  }
}

// Columns of values to rows of samples, in the blocks of the group beside each other.
HWY_INLINE void PutEightColumns(const Block& columns, SampleBlock to) {
  SampleRows rows;
  ColumnsToRows(columns, rows);
  HWY_UNROLL(8)
  for (size_t row = 0; row < 8; ++row) {
    hn::StoreU(rows.v[row], hn::Half<Bytes>(), to.Row(row));
  }
}

// The same for four columns.
HWY_INLINE void PutFourColumns(const Block& columns, SampleBlock to) {
  const hn::Repartition<uint32_t, Bytes> d32;
  HWY_ALIGN uint32_t rows[kLanes / 2];
  hn::Store(FourColumnsToRows(columns), d32, rows);
  constexpr size_t kBlocks = kLanes / 8;
  HWY_UNROLL(4)
  for (size_t row = 0; row < 4; ++row) {
    std::memcpy(to.Row(row), rows + row * kBlocks, kBlocks * sizeof(uint32_t));
  }
}

// Whether the first pass has a result of the first row alone that leaves 16 bits.
HWY_INLINE bool LeavesRange(Row first_row) {
  const Coefficients d;
  constexpr int16_t kLimit = INT16_MAX >> kDctFirstPassBits;
  const auto above = hn::Gt(first_row, hn::Set(d, kLimit));
  const auto below = hn::Lt(first_row, hn::Set(d, static_cast<int16_t>(-kLimit - 1)));
  return !hn::AllFalse(d, hn::Or(above, below));
}

// libjpeg-turbo shifts the first row of a block that has no other, where the transform saturates;
// where it wraps, that makes no difference. Returns the lanes of such blocks; `rows`: of the
// coefficients that may be other than 0. A transform to four values does not look at row 4.
template <int size>
HWY_NOINLINE hn::Mask<Coefficients> OnlyFirstRow(const int16_t* coefficients, int rows) {
  const Coefficients d;
  HWY_ALIGN int16_t only[kLanes];
  for (size_t block = 0; block < kLanes; block += 8) {
    int16_t others = 0;
    for (int row = 1; row < rows; ++row) {
      if (size == 4 && row == 4) continue;
      const int16_t* at = coefficients + static_cast<size_t>(row) * kLanes + block;
      for (int column = 0; column < 8; ++column) others = static_cast<int16_t>(others | at[column]);
    }
    for (size_t column = 0; column < 8; ++column) only[block + column] = others == 0 ? 1 : 0;
  }
  return hn::Ne(hn::Load(d, only), hn::Zero(d));
}

template <int size, int rows>
HWY_INLINE void TransformBlocks(int16_t* coefficients, const int16_t* quantization,
                                SampleBlock to) {
  const Coefficients d;
  constexpr int kMeanBits = size == 8 ? 0 : 1;  // more, since a mean is a sum of two
  constexpr int kFirstBits = kDctFactorBits - kDctFirstPassBits + kMeanBits;
  constexpr int kSecondBits = kDctFactorBits + kDctFirstPassBits + 3 + kMeanBits;
  const Row first_row = hn::Mul(hn::Load(d, coefficients), hn::Load(d, quantization));
  const bool leaves_range = !HWY_ARCH_ARM && LeavesRange(first_row);
  auto shifted = hn::Ne(first_row, first_row);  // none
  if (HWY_UNLIKELY(leaves_range)) shifted = OnlyFirstRow<size>(coefficients, rows);

  Block block;
  Take<rows>(coefficients, quantization, block);
  TransformTo<size, rows, kFirstBits>(block);
  if (HWY_UNLIKELY(leaves_range)) {
    for (int row = 0; row < size; ++row) {
      block.v[row] =
          hn::IfThenElse(shifted, hn::ShiftLeft<kDctFirstPassBits>(first_row), block.v[row]);
    }
  }
  Transpose<rows>(block);
  TransformTo<size, rows, kSecondBits>(block);
  if constexpr (size == 8) {
    PutEightColumns(block, to);
  } else {
    PutFourColumns(block, to);
  }
}

// The first coefficient is the only one: all samples of a block are equal.
template <int size>
HWY_INLINE void FillBlocks(int16_t* coefficients, const int16_t* quantization, SampleBlock to) {
  const Coefficients d;
  constexpr int kBits = kDctFirstPassBits + 3;
  Block block;
  Take<1>(coefficients, quantization, block);
  const Row scaled = hn::ShiftLeft<kDctFirstPassBits>(block.v[0]);
  const Row rounded = hn::SaturatedAdd(scaled, hn::Set(d, static_cast<int16_t>(1 << (kBits - 1))));
  const Row sample = hn::Broadcast<0>(hn::ShiftRight<kBits>(rounded));
  for (int row = 0; row < size; ++row) Put<size>(sample, to.Row(row));
}

template <int size>
void InverseDctTo(int16_t* coefficients, const int16_t* quantization, int last_place,
                  SampleBlock to) {
  switch (RowsUpTo(last_place)) {
    case 1:
      return FillBlocks<size>(coefficients, quantization, to);
    case 4:
      return TransformBlocks<size, 4>(coefficients, quantization, to);
    default:
      return TransformBlocks<size, 8>(coefficients, quantization, to);
  }
}

// To two samples, each the mean of four; only the first coefficient and the odd ones have a part in
// them. The second pass is a sum of products along a row.
constexpr int kFourBits = 2;  // more in a sum of four
constexpr int kFirstBitsOfTwo = kDctFactorBits - kDctFirstPassBits + kFourBits;
constexpr int kSecondBitsOfTwo = kDctFactorBits + kDctFirstPassBits + 3 + kFourBits;

// Of the results of the first pass the first column, times one. In libjpeg-turbo's code for x86 it
// keeps 32 bits, in that for Arm 16; see Narrow.
HWY_INLINE Sum FirstColumn(Sum sums) {
  const Sum shifted = hn::ShiftRight<kFirstBitsOfTwo>(sums);
  if constexpr (HWY_ARCH_ARM) {
    return hn::ShiftRight<16>(hn::ShiftLeft<16>(shifted));
  } else {
    return shifted;
  }
}

// Of each block the sum of its four lanes, in all four.
HWY_INLINE Sum SumOfLanes(Sum lanes) {
  const Sum pairs = hn::Add(lanes, hn::Shuffle2301(lanes));
  return hn::Add(pairs, hn::Shuffle1032(pairs));
}

// The two samples of one row, in each half of a block, as sums that have wrapped in 32 bits. low,
// high: of the first pass columns 0 to 3, and 4 to 7.
HWY_INLINE Sum RowOfTwo(Sum low, Sum high) {
  const Coefficients d;
  const Sums d32;
  HWY_ALIGN constexpr int16_t kFactors[8] = {0, kC3624, 0, -kC1272, 0, kC0850, 0, -kC0720};
  const Row first_pass = Narrow<kFirstBitsOfTwo>(low, high);
  const Sum first_column = hn::Broadcast<0>(FirstColumn(low));
  const Sum even = hn::ShiftLeft<kDctFactorBits + kFourBits>(first_column);
  const Sum odd = SumOfLanes(MulAddPairs(d32, first_pass, hn::LoadDup128(d, kFactors)));
  return hn::InterleaveLower(d32, hn::Add(even, odd), hn::Sub(even, odd));
}

// The samples of sums without their fractional bits; see Narrow.
HWY_INLINE hn::Vec<hn::Rebind<int8_t, Sums>> SamplesOfTwo(Sum sums) {
  const Sums d32;
  constexpr int kRest = kSecondBitsOfTwo - 16;
  if constexpr (HWY_ARCH_ARM) {
    const Sum upper = hn::ShiftRight<16>(sums);
    sums = hn::ShiftRight<kRest>(hn::Add(upper, hn::Set(d32, 1 << (kRest - 1))));
  } else {
    sums =
        hn::ShiftRight<kSecondBitsOfTwo>(hn::Add(sums, hn::Set(d32, 1 << (kSecondBitsOfTwo - 1))));
  }
  return hn::DemoteTo(hn::Rebind<int8_t, Sums>(), sums);
}

template <int rows>
HWY_INLINE void TransformToTwo(int16_t* coefficients, const int16_t* quantization, SampleBlock to) {
  const Sums d32;
  const hn::Repartition<int64_t, Sums> d64;
  const hn::Rebind<uint8_t, Sums> d8;
  Block block;
  Take<rows>(coefficients, quantization, block);
  const Row* v = block.v;
  const WideRow mean = Add(Scale<kDctFactorBits + kFourBits>(v[0]), Rounding<kFirstBitsOfTwo>());
  WideRow odd = Multiply(Interleave(v[3], v[1]), -kC1272, kC3624);
  if constexpr (rows == 8) odd = Add(odd, Multiply(Interleave(v[7], v[5]), -kC0720, kC0850));
  const Sum first = RowOfTwo(hn::Add(mean.low, odd.low), hn::Add(mean.high, odd.high));
  const Sum second = RowOfTwo(hn::Sub(mean.low, odd.low), hn::Sub(mean.high, odd.high));
  const Sum block_of_two =
      hn::BitCast(d32, hn::InterleaveLower(d64, hn::BitCast(d64, first), hn::BitCast(d64, second)));
  const auto samples =
      hn::Xor(hn::BitCast(d8, SamplesOfTwo(block_of_two)), hn::Set(d8, uint8_t{0x80}));
  constexpr size_t kBlocks = kLanes / 8;
  HWY_ALIGN uint8_t stored[4 * kBlocks];
  hn::Store(samples, d8, stored);
  HWY_UNROLL(4)
  for (size_t i = 0; i < kBlocks; ++i) {
    std::memcpy(to.Row(0) + 2 * i, stored + 4 * i, 2);
    std::memcpy(to.Row(1) + 2 * i, stored + 4 * i + 2, 2);
  }
}

void InverseDctToTwo(int16_t* coefficients, const int16_t* quantization, int last_place,
                     SampleBlock to) {
  switch (RowsUpTo(last_place)) {
    case 1:
    case 4:
      return TransformToTwo<4>(coefficients, quantization, to);
    default:
      return TransformToTwo<8>(coefficients, quantization, to);
  }
}

// To one sample, the mean of the block.
void InverseDctToOne(int16_t* coefficients, const int16_t* quantization, int last_place,
                     SampleBlock to) {
  for (size_t block = 0; block < kLanes / 8; ++block) {
    const int32_t eighths = int32_t{coefficients[8 * block]} * quantization[8 * block];
    to.data[block] = WrappedSample(static_cast<uint32_t>((eighths + 4) >> 3));
  }
  std::fill_n(coefficients, static_cast<size_t>(RowsUpTo(last_place)) * kLanes, int16_t{0});
}

InverseDctKernels GetKernelsImpl() {
  InverseDctKernels kernels;
  kernels.blocks = static_cast<int>(kLanes / 8);
  kernels.by_size[1] = InverseDctToOne;
  kernels.by_size[2] = InverseDctToTwo;
  kernels.by_size[4] = InverseDctTo<4>;
  kernels.by_size[8] = InverseDctTo<8>;
  AddScaledKernels(kernels);
  return kernels;
}

}  // namespace HWY_NAMESPACE
}  // namespace endcap
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace endcap {

HWY_EXPORT(GetKernelsImpl);

InverseDctKernels FastestInverseDct() { return HWY_DYNAMIC_DISPATCH(GetKernelsImpl)(); }

}  // namespace endcap
#endif
