#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "masks/packed_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target.h includes this file once for each target: it has to come first.
#include <hwy/highway.h>

#include <array>

#include "common/vector_operations-inl.h"
#include "masks/implementations.h"

HWY_BEFORE_NAMESPACE();
namespace endcap::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, 8>;  // a byte's pixels at most
using Signed = hn::RebindToSigned<Floats>;
using FloatVector = hn::Vec<Floats>;

// A row of logits at the mask's columns.
void InterpolateRow(const float* logits, const PackedColumns& columns, float* row) {
  const Floats d;
  const Signed di;
  for (size_t i = 0; i < columns.weight.size(); i += hn::Lanes(d)) {
    const auto left = hn::GatherIndex(d, logits, hn::LoadU(di, columns.left.data() + i));
    const auto right = hn::GatherIndex(d, logits, hn::LoadU(di, columns.right.data() + i));
    const auto weight = hn::LoadU(d, columns.weight.data() + i);
    hn::StoreU(Interpolate(d, left, right, weight), d, row + i);
  }
}

// The bits of eight pixels, the first lowest.
HWY_INLINE uint8_t PackEightBits(const float* upper, const float* lower, FloatVector weight) {
  const Floats d;
  uint64_t bits = 0;
  for (size_t i = 0; i < 8; i += hn::Lanes(d)) {
    const auto value = Interpolate(d, hn::LoadU(d, upper + i), hn::LoadU(d, lower + i), weight);
    bits |= LaneBits(d, hn::Gt(value, hn::Zero(d))) << i;
  }
  return static_cast<uint8_t>(bits);
}

void PackRows(const MaskLogits& mask, size_t row_bytes, PackedColumns& columns, uint8_t* out) {
  const Floats d;
  const PixelRange& range = mask.region.columns;
  const size_t length = columns.weight.size();
  const size_t bytes = length / 8;
  const auto in_first = static_cast<uint8_t>(0xFFU >> range.begin % 8);
  const auto in_last = static_cast<uint8_t>(0xFFU << (7 - (range.end - 1) % 8));
  // Rows of prototype pixels are needed in ascending order, two at a time.
  columns.rows.resize(2 * length);
  std::array<int32_t, 2> held{-1, -1};
  const auto take_row = [&](int32_t row) {
    const auto place = static_cast<size_t>(row % 2);
    float* values = columns.rows.data() + place * length;
    if (held[place] != row) {
      held[place] = row;
      const auto offset = static_cast<size_t>(row - mask.region.prototype_rows.begin);
      InterpolateRow(mask.values + offset * mask.stride, columns, values);
    }
    return values;
  };
  for (auto y = static_cast<size_t>(mask.region.rows.begin);
       y < static_cast<size_t>(mask.region.rows.end); ++y) {
    const float* upper = take_row(mask.y.first[y]);
    const float* lower = take_row(mask.y.second[y]);
    const auto weight = hn::Set(d, mask.y.weight[y]);
    uint8_t* packed = out + y * row_bytes + static_cast<size_t>(range.begin) / 8;
    for (size_t i = 0; i < bytes; ++i) {
      packed[i] = PackEightBits(upper + 8 * i, lower + 8 * i, weight);
    }
    packed[0] &= in_first;
    packed[bytes - 1] &= in_last;
  }
}

}  // namespace endcap::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace endcap {
namespace {

void PlaceColumns(const MaskLogits& mask, PackedColumns& columns) {
  const PixelRange& range = mask.region.columns;
  const size_t before = static_cast<size_t>(range.begin) / 8 * 8;
  const size_t length = (static_cast<size_t>(range.end) + 7) / 8 * 8 - before;
  columns.left.assign(length, 0);
  columns.right.assign(length, 0);
  columns.weight.assign(length, 0.0F);
  for (auto x = static_cast<size_t>(range.begin); x < static_cast<size_t>(range.end); ++x) {
    const size_t place = (x - before) ^ 7U;
    columns.left[place] = mask.x.first[x] - mask.region.prototype_columns.begin;
    columns.right[place] = mask.x.second[x] - mask.region.prototype_columns.begin;
    columns.weight[place] = mask.x.weight[x];
  }
}

}  // namespace

HWY_EXPORT(PackRows);

void PackMaskSimd(const MaskLogits& mask, size_t row_bytes, PackedColumns& columns, uint8_t* out) {
  PlaceColumns(mask, columns);
  HWY_DYNAMIC_DISPATCH(PackRows)(mask, row_bytes, columns, out);
}

}  // namespace endcap
#endif  // HWY_ONCE
