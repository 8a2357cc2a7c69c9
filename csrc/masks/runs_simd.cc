#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "masks/runs_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target.h includes this file once for each target: it has to come first.
#include <hwy/highway.h>

#include <algorithm>
#include <bit>

#include "common/vector_operations-inl.h"
#include "masks/implementations.h"

HWY_BEFORE_NAMESPACE();
namespace endcap::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, kMaskPadding>;
using FloatVector = hn::Vec<Floats>;

constexpr size_t kWordBits = ColumnScratch::kWordBits;

// The values of a mask's column at each row of the prototypes, and their signs. `values` are whole
// words of rows. Returns whether none of them is below kMinSafe and positive.
bool MakeColumn(const float* left, const float* right, float right_weight, ColumnScratch& scratch) {
  const Floats d;
  const auto weight = hn::Set(d, right_weight);
  const auto zero = hn::Zero(d);
  auto unsafe = hn::FirstN(d, 0);
  float* values = scratch.values.data();
  for (uint64_t& word : scratch.positive) {
    word = 0;
    for (size_t i = 0; i < kWordBits; i += hn::Lanes(d)) {
      const auto value = Interpolate(d, hn::LoadU(d, left + i), hn::LoadU(d, right + i), weight);
      const auto positive = hn::Gt(value, zero);
      word |= LaneBits(d, positive) << i;
      unsafe = hn::Or(unsafe, hn::And(positive, hn::Lt(value, hn::Set(d, kMinSafe))));
      hn::StoreU(value, d, values + i);
    }
    left += kWordBits;
    right += kWordBits;
    values += kWordBits;
  }
  return hn::AllFalse(d, unsafe);
}

// How many of the pixels with `weights` [count] are positive between two values. Reads kMaskPadding
// weights beyond.
HWY_INLINE int CountPositive(float from, float to, const float* weights, int count) {
  const Floats d;
  const auto lanes = static_cast<int>(hn::Lanes(d));
  size_t found = 0;
  for (int i = 0; i < count; i += lanes) {
    const auto value = Interpolate(d, hn::Set(d, from), hn::Set(d, to), hn::LoadU(d, weights + i));
    const auto counted = hn::FirstN(d, static_cast<size_t>(count - i));
    found += hn::CountTrue(d, hn::And(hn::Gt(value, hn::Zero(d)), counted));
  }
  return static_cast<int>(found);
}

// Adds the runs of a column whose first pixel has the number `first_pixel` in the mask.
void AddSafeColumn(const MaskLogits& mask, const ColumnScratch& scratch, uint32_t first_pixel,
                   RleCounts& counts) {
  const PixelRange& rows = mask.region.rows;
  const int32_t* cells = mask.y.begin.data() + mask.region.prototype_rows.begin;
  const float* weights = mask.y.weight.data();
  const float* values = scratch.values.data();
  const auto add = [&](int begin, int end) {
    counts.Add(first_pixel + static_cast<uint32_t>(begin),
               first_pixel + static_cast<uint32_t>(end));
  };
  uint64_t inside = scratch.positive[0] & 1;
  int run = rows.begin;
  for (size_t w = 0; w < scratch.positive.size(); ++w) {
    const uint64_t signs = scratch.positive[w];
    const uint64_t next = w + 1 < scratch.positive.size() ? scratch.positive[w + 1] : 0;
    uint64_t changes = signs ^ (signs >> 1 | next << (kWordBits - 1));
    for (; changes != 0; changes &= changes - 1) {
      const size_t row = w * kWordBits + static_cast<size_t>(std::countr_zero(changes));
      const int begin = std::clamp(cells[row], rows.begin, rows.end);
      const int end = std::clamp(cells[row + 1], rows.begin, rows.end);
      const int positive =
          CountPositive(values[row], values[row + 1], weights + begin, end - begin);
      if (inside != 0) {
        add(run, begin + positive);
      } else {
        run = end - positive;
      }
      inside ^= 1;
    }
  }
  if (inside != 0) add(run, rows.end);
}

void AddColumns(const MaskLogits& mask, size_t height, ColumnScratch& scratch, RleCounts& counts) {
  const PixelRange& columns = mask.region.columns;
  const size_t rows = scratch.positive.size() * kWordBits;
  const float* transposed = scratch.transposed.data();
  const auto column = [&](int32_t prototype) {
    return transposed + static_cast<size_t>(prototype - mask.region.prototype_columns.begin) * rows;
  };
  for (auto x = static_cast<size_t>(columns.begin); x < static_cast<size_t>(columns.end); ++x) {
    const float* left = column(mask.x.first[x]);
    const float* right = column(mask.x.second[x]);
    if (MakeColumn(left, right, mask.x.weight[x], scratch)) {
      AddSafeColumn(mask, scratch, static_cast<uint32_t>(x * height), counts);
    } else {
      AddColumnRuns(mask, x, height, counts);
    }
  }
}

}  // namespace endcap::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace endcap {
namespace {

// Whole words of rows; those beyond the region are 0.
void TurnLogits(const MaskLogits& mask, ColumnScratch& scratch) {
  const size_t rows = mask.region.prototype_rows.size();
  const size_t columns = mask.region.prototype_columns.size();
  const size_t words = rows / ColumnScratch::kWordBits + 1;
  const size_t transposed_stride = words * ColumnScratch::kWordBits;
  scratch.positive.resize(words);
  scratch.values.resize(transposed_stride);
  scratch.transposed.resize(columns * transposed_stride);
  for (size_t column = 0; column < columns; ++column) {
    float* transposed = scratch.transposed.data() + column * transposed_stride;
    for (size_t row = 0; row < rows; ++row)
      transposed[row] = mask.values[row * mask.stride + column];
    std::fill(transposed + rows, transposed + transposed_stride, 0.0F);
  }
}

}  // namespace

HWY_EXPORT(AddColumns);

void AddRunsSimd(const MaskLogits& mask, size_t height, ColumnScratch& scratch, RleCounts& counts) {
  TurnLogits(mask, scratch);
  HWY_DYNAMIC_DISPATCH(AddColumns)(mask, height, scratch, counts);
}

}  // namespace endcap
#endif  // HWY_ONCE
