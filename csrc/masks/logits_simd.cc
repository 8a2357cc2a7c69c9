#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "masks/logits_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target.h includes this file once for each target: it has to come first.
#include <hwy/highway.h>

#include <algorithm>

#include "masks/implementations.h"

HWY_BEFORE_NAMESPACE();
namespace endcap::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, kMaskPadding>;
using FloatVector = hn::Vec<Floats>;

// A region's part of a row, in one prototype and in those that follow it `plane` elements apart.
struct PrototypeRow {
  const float* pixels;
  size_t plane;
  size_t columns;
  size_t readable;  // elements up to the end of the prototype
};

HWY_INLINE FloatVector AddProduct(FloatVector sum, float coefficient, const float* pixels) {
  const Floats d;
  // Rounded twice, as the definition rounds.
  return hn::Add(sum, hn::Mul(hn::Set(d, coefficient), hn::LoadU(d, pixels)));
}

// Adds kCount prototypes to the sums, in their order. Vectors reach beyond the region, but not
// beyond the prototype.
template <size_t kCount>
HWY_INLINE void AddPrototypes(const PrototypeRow& row, const float* coefficients, float* sums) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  size_t x = 0;
  for (; x < row.columns && x + lanes <= row.readable; x += lanes) {
    auto sum = hn::LoadU(d, sums + x);
    for (size_t m = 0; m < kCount; ++m) {
      sum = AddProduct(sum, coefficients[m], row.pixels + m * row.plane + x);
    }
    hn::StoreU(sum, d, sums + x);
  }
  for (; x < row.columns; ++x) {
    for (size_t m = 0; m < kCount; ++m) sums[x] += coefficients[m] * row.pixels[m * row.plane + x];
  }
}

// Makes 0 of what is next to it. Returns whether all the sums are finite, and what vectors find
// beyond the last column: x - x is 0 for every finite x, else NaN.
bool SettleSums(float* logits, size_t rows, size_t columns, size_t stride) {
  const Floats d;
  const auto least = hn::Set(d, kMinLogit);
  auto doubt = hn::Zero(d);
  for (size_t row = 0; row < rows; ++row) {
    for (size_t x = 0; x < columns; x += hn::Lanes(d)) {
      const auto sum = hn::LoadU(d, logits + row * stride + x);
      doubt = hn::Add(doubt, hn::Sub(sum, sum));
      hn::StoreU(hn::IfThenZeroElse(hn::Lt(hn::Abs(sum), least), sum), d,
                 logits + row * stride + x);
    }
  }
  return hn::AllTrue(d, hn::Eq(doubt, hn::Zero(d)));
}

// Few prototypes at a time, each for all rows: a row of every prototype after the other would lie
// in the same places of the cache, and displace the one before.
bool SumWindow(const MaskPrototypes& prototypes, const float* coefficients,
               const MaskRegion& region, float* logits) {
  constexpr size_t kTogether = 4;
  const size_t stride = LogitStride(region);
  const size_t rows = region.prototype_rows.size();
  const size_t columns = region.prototype_columns.size();
  const auto width = static_cast<size_t>(prototypes.width);
  const size_t plane = width * static_cast<size_t>(prototypes.height);
  const size_t first = static_cast<size_t>(region.prototype_rows.begin) * width +
                       static_cast<size_t>(region.prototype_columns.begin);
  const auto count = static_cast<size_t>(prototypes.count);
  std::fill_n(logits, rows * stride, 0.0F);
  for (size_t m = 0; m < count;) {
    const bool together = m + kTogether <= count;
    for (size_t y = 0; y < rows; ++y) {
      const size_t offset = first + y * width;
      const PrototypeRow row{prototypes.data + m * plane + offset, plane, columns, plane - offset};
      if (together) {
        AddPrototypes<kTogether>(row, coefficients + m, logits + y * stride);
      } else {
        AddPrototypes<1>(row, coefficients + m, logits + y * stride);
      }
    }
    m += together ? kTogether : 1;
  }
  return SettleSums(logits, rows, columns, stride);
}

}  // namespace endcap::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace endcap {

HWY_EXPORT(SumWindow);

bool MaskLogitsSimd(const MaskPrototypes& prototypes, const float* coefficients,
                    const MaskRegion& region, float* logits) {
  return HWY_DYNAMIC_DISPATCH(SumWindow)(prototypes, coefficients, region, logits);
}

}  // namespace endcap
#endif  // HWY_ONCE
