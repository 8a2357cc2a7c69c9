// Included once for each target of Highway; see hwy/foreach_target.h.
#if defined(ENDCAP_DECODE_INVERSE_DCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENDCAP_DECODE_INVERSE_DCT_INL_H_
#undef ENDCAP_DECODE_INVERSE_DCT_INL_H_
#else
#define ENDCAP_DECODE_INVERSE_DCT_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "common/vector_operations-inl.h"
#include "decode/inverse_dct.h"

HWY_BEFORE_NAMESPACE();
namespace endcap {
namespace HWY_NAMESPACE {

// A vector holds a row of each block of the group, a block in each 128 bits.
using Coefficients = hn::CappedTag<int16_t, size_t{8} * kMaxBlocksPerGroup>;
using Sums = hn::RepartitionToWide<Coefficients>;
using Row = hn::Vec<Coefficients>;
using Sum = hn::Vec<Sums>;
using Samples = hn::Rebind<uint8_t, Coefficients>;
using Bytes = hn::Repartition<uint8_t, Coefficients>;

constexpr size_t kLanes = hn::MaxLanes(Coefficients());

// Eight rows, or eight columns where they are transposed.
struct Block {
  // The implicit constructor would not be for this target, and could not call that of a NEON
  // vector.
  HWY_INLINE Block() {}
  Row v[8];
};

// 32-bit sums for all lanes of a row.
struct WideRow {
  Sum low;
  Sum high;
};

HWY_INLINE WideRow Add(const WideRow& a, const WideRow& b) {
  return {hn::Add(a.low, b.low), hn::Add(a.high, b.high)};
}

// Two rows, lane beside lane.
struct RowPair {
  Row low;
  Row high;
};

HWY_INLINE RowPair Interleave(Row a, Row b) {
  const Coefficients d;
  return {hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)};
}

// a * first + b * second for the rows a, b of a pair.
HWY_INLINE WideRow Multiply(const RowPair& pair, int16_t first, int16_t second) {
  const Coefficients d;
  const Sums d32;
  const auto factors =
      hn::BitCast(d, hn::Set(d32, static_cast<int32_t>(static_cast<uint16_t>(first)) |
                                      static_cast<int32_t>(static_cast<uint32_t>(second) << 16)));
  return {MulAddPairs(d32, pair.low, factors), MulAddPairs(d32, pair.high, factors)};
}

// Adds the kernels of scaled_inverse_dct_simd.cc.
void AddScaledKernels(InverseDctKernels& kernels);

// Rows become columns in each block; of `rows` the first 4 or 8 are made.
template <int rows>
HWY_INLINE void Transpose(Block& block) {
  const Coefficients d;
  const hn::Repartition<int32_t, Coefficients> d32;
  const hn::Repartition<int64_t, Coefficients> d64;
  Row* v = block.v;
  const auto lower32 = [=](Row a, Row b) HWY_ATTR {
    return hn::BitCast(d64, hn::InterleaveLower(d32, hn::BitCast(d32, a), hn::BitCast(d32, b)));
  };
  const auto upper32 = [=](Row a, Row b) HWY_ATTR {
    return hn::BitCast(d64, hn::InterleaveUpper(d32, hn::BitCast(d32, a), hn::BitCast(d32, b)));
  };
  // Lanes of rows 0 and 1, 2 and 3, ... beside each other.
  const RowPair a = Interleave(v[0], v[1]);
  const RowPair b = Interleave(v[2], v[3]);
  const RowPair c = Interleave(v[4], v[5]);
  const RowPair e = Interleave(v[6], v[7]);
  const auto put = [=](Row* to, auto first, auto second) HWY_ATTR {
    to[0] = hn::BitCast(d, hn::InterleaveLower(d64, first, second));
    to[1] = hn::BitCast(d, hn::InterleaveUpper(d64, first, second));
  };
  put(v, lower32(a.low, b.low), lower32(c.low, e.low));
  put(v + 2, upper32(a.low, b.low), upper32(c.low, e.low));
  if constexpr (rows == 8) {
    put(v + 4, lower32(a.high, b.high), lower32(c.high, e.high));
    put(v + 6, upper32(a.high, b.high), upper32(c.high, e.high));
  }
}

// Two columns of values around 0 to samples: in each 128 bits eight of `first`, then eight of
// `second`.
HWY_INLINE hn::Vec<Bytes> ToBytes(Row first, Row second) {
  const Bytes d;
  const hn::RebindToSigned<Bytes> d_signed;
#if HWY_ARCH_X86 && HWY_MAX_BYTES == 64
  const hn::Vec<decltype(d_signed)> around_0{_mm512_packs_epi16(first.raw, second.raw)};
#elif HWY_ARCH_X86 && HWY_MAX_BYTES == 32
  const hn::Vec<decltype(d_signed)> around_0{_mm256_packs_epi16(first.raw, second.raw)};
#else
  static_assert(hn::MaxLanes(d) == 16);
  const hn::Half<decltype(d_signed)> d_half;
  const auto around_0 =
      hn::Combine(d_signed, hn::DemoteTo(d_half, second), hn::DemoteTo(d_half, first));
#endif
  return hn::Xor(hn::BitCast(d, around_0), hn::Set(d, 0x80));
}

// Eight rows of samples: of each block eight, beside those of the next block.
struct SampleRows {
  HWY_INLINE SampleRows() {}  // see Block
  hn::Vec<hn::Half<Bytes>> v[8];
};

// Eight columns of values to rows of samples.
HWY_INLINE void ColumnsToRows(const Block& columns, SampleRows& rows) {
  const Bytes d;
  const hn::Repartition<uint16_t, Bytes> d16;
  const hn::Repartition<uint32_t, Bytes> d32;
  const hn::Repartition<uint64_t, Bytes> d64;
  const Row* v = columns.v;
  const auto c04 = ToBytes(v[0], v[4]);
  const auto c15 = ToBytes(v[1], v[5]);
  const auto c26 = ToBytes(v[2], v[6]);
  const auto c37 = ToBytes(v[3], v[7]);
  // Pairs of columns, row after row.
  const auto c01 = hn::BitCast(d16, hn::InterleaveLower(d, c04, c15));
  const auto c23 = hn::BitCast(d16, hn::InterleaveLower(d, c26, c37));
  const auto c45 = hn::BitCast(d16, hn::InterleaveUpper(d, c04, c15));
  const auto c67 = hn::BitCast(d16, hn::InterleaveUpper(d, c26, c37));
  const auto first_half = hn::BitCast(d32, hn::InterleaveLower(d16, c01, c23));
  const auto first_half_below = hn::BitCast(d32, hn::InterleaveUpper(d16, c01, c23));
  const auto second_half = hn::BitCast(d32, hn::InterleaveLower(d16, c45, c67));
  const auto second_half_below = hn::BitCast(d32, hn::InterleaveUpper(d16, c45, c67));
  // Each holds two rows of each block.
  const auto put = [=](auto rows01, auto rows23, auto* four_rows) HWY_ATTR {
    const auto a = hn::BitCast(d64, rows01);
    const auto b = hn::BitCast(d64, rows23);
    const auto even = hn::BitCast(d, hn::ConcatEven(d64, b, a));
    const auto odd = hn::BitCast(d, hn::ConcatOdd(d64, b, a));
    const hn::Half<Bytes> d_half;
    four_rows[0] = hn::LowerHalf(d_half, even);
    four_rows[1] = hn::LowerHalf(d_half, odd);
    four_rows[2] = hn::UpperHalf(d_half, even);
    four_rows[3] = hn::UpperHalf(d_half, odd);
  };
  put(hn::InterleaveLower(d32, first_half, second_half),
      hn::InterleaveUpper(d32, first_half, second_half), rows.v);
  put(hn::InterleaveLower(d32, first_half_below, second_half_below),
      hn::InterleaveUpper(d32, first_half_below, second_half_below), rows.v + 4);
}

// Four columns of values, of which the first four lanes are looked at, to rows of samples: four of
// each block, row after row.
HWY_INLINE hn::Vec<hn::Repartition<uint32_t, Bytes>> FourColumnsToRows(const Block& columns) {
  const Bytes d;
  const hn::Repartition<uint16_t, Bytes> d16;
  const hn::Repartition<uint32_t, Bytes> d32;
  const Row* v = columns.v;
  const auto c02 = ToBytes(v[0], v[2]);
  const auto c13 = ToBytes(v[1], v[3]);
  const auto c01 = hn::BitCast(d16, hn::InterleaveLower(d, c02, c13));
  const auto c23 = hn::BitCast(d16, hn::InterleaveUpper(d, c02, c13));
  const auto rows_of_blocks = hn::BitCast(d32, hn::InterleaveLower(d16, c01, c23));
  constexpr size_t kBlocks = kLanes / 8;
  HWY_ALIGN int32_t order[4 * kBlocks];
  for (size_t i = 0; i < 4 * kBlocks; ++i) {
    order[i] = static_cast<int32_t>(i % kBlocks * 4 + i / kBlocks);
  }
  return hn::TableLookupLanes(rows_of_blocks, hn::SetTableIndices(d32, order));
}

}  // namespace HWY_NAMESPACE
}  // namespace endcap
HWY_AFTER_NAMESPACE();

#endif
