#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "masks/class_map_simd.cc"
#include <hwy/foreach_target.h>
// foreach_target.h includes this file once for each target: it has to come first.
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <vector>

#include "common/vector_operations-inl.h"
#include "masks/implementations.h"

HWY_BEFORE_NAMESPACE();
namespace endcap::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, kMaskPadding>;
using Signed = hn::RebindToSigned<Floats>;
using Bytes = hn::Rebind<uint8_t, Floats>;

// A row of the logits of all classes at the map's columns: row[class][stride].
void InterpolateRows(const ClassLogits& logits, int32_t y, const MaskTaps& x, size_t stride,
                     float* row) {
  const Floats d;
  const Signed di;
  for (size_t c = 0; c < logits.classes; ++c, row += stride) {
    const float* line = logits.row(c, y);
    for (size_t i = 0; i < stride; i += hn::Lanes(d)) {
      const auto left = hn::GatherIndex(d, line, hn::LoadU(di, x.first.data() + i));
      const auto right = hn::GatherIndex(d, line, hn::LoadU(di, x.second.data() + i));
      hn::StoreU(Interpolate(d, left, right, hn::LoadU(d, x.weight.data() + i)), d, row + i);
    }
  }
}

// The greatest of the classes at each pixel between two rows.
void ChooseClasses(const ClassLogits& logits, const float* upper, const float* lower, float weight,
                   std::vector<uint8_t>& ids) {
  const Floats d;
  const Signed di;
  const size_t stride = ids.size();
  const auto lower_weight = hn::Set(d, weight);
  for (size_t i = 0; i < stride; i += hn::Lanes(d)) {
    auto best = hn::Set(d, logits.lowest());
    auto id = hn::Zero(di);
    for (size_t c = 0; c < logits.classes; ++c) {
      const auto value = Interpolate(d, hn::LoadU(d, upper + c * stride + i),
                                     hn::LoadU(d, lower + c * stride + i), lower_weight);
      const auto number = hn::Set(di, static_cast<int32_t>(logits.first_id() + c));
      id = hn::IfThenElse(hn::RebindMask(di, hn::Gt(value, best)), number, id);
      best = hn::Max(best, value);
    }
    hn::StoreU(hn::DemoteTo(Bytes(), id), Bytes(), ids.data() + i);
  }
}

// x: for whole vectors of pixels; those beyond `width` read column 0.
void MapRows(const ClassLogits& logits, const MaskTaps& x, const MaskTaps& y, size_t width,
             uint8_t* map) {
  std::vector<uint8_t> ids(x.first.size());
  // Rows are needed in ascending order, two at a time.
  std::array<std::vector<float>, 2> rows;
  for (std::vector<float>& each : rows) each.resize(logits.classes * ids.size());
  std::array<int32_t, 2> held{-1, -1};
  const auto take_row = [&](int32_t row) {
    const auto place = static_cast<size_t>(row % 2);
    if (held[place] != row) InterpolateRows(logits, row, x, ids.size(), rows[place].data());
    held[place] = row;
    return rows[place].data();
  };
  for (size_t row = 0; row < y.first.size(); ++row) {
    const float* upper = take_row(y.first[row]);
    const float* lower = take_row(y.second[row]);
    ChooseClasses(logits, upper, lower, y.weight[row], ids);
    map = std::copy_n(ids.data(), width, map);
  }
}

}  // namespace endcap::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace endcap {

HWY_EXPORT(MapRows);

void MapLogitsSimd(const ClassLogits& logits, const MaskTaps& x, const MaskTaps& y, uint8_t* map) {
  const size_t width = x.first.size();
  MaskTaps padded = x;
  padded.first.resize((width + kMaskPadding - 1) / kMaskPadding * kMaskPadding);
  padded.second.resize(padded.first.size());
  HWY_DYNAMIC_DISPATCH(MapRows)(logits, padded, y, width, map);
}

}  // namespace endcap
#endif  // HWY_ONCE
