#include <array>
#include <cmath>

#include "box_decode/families.h"
#include "common/fail.h"
#include "common/half.h"

namespace endcap {
namespace {

float ValueAt(const ConstTensorView& head, size_t place) {
  if (head.dtype == DType::kFloat16) {
    return HalfToFloat(static_cast<const uint16_t*>(head.data)[place]);
  }
  return static_cast<const float*>(head.data)[place];
}

size_t FirstRowBelowScores(const HeadParams& params) {
  return size_t{4} + static_cast<size_t>(params.num_classes);
}

// Calls take(value) for a range of an anchor's rows.
template <typename Take>
void ReadColumn(const ConstTensorView& head, size_t first_row, size_t count, int32_t anchor,
                Take take) {
  const auto anchors = static_cast<size_t>(head.shape[1]);
  for (size_t row = first_row; row < first_row + count; ++row) {
    const float value = ValueAt(head, row * anchors + static_cast<size_t>(anchor));
    if (!std::isfinite(value)) {
      FailArgument("head has ", value, " in row ", row, " of anchor ", anchor);
    }
    take(value);
  }
}

}  // namespace

// Columns of `head` [4+C+extra, A], below the scores. Only those of the kept are touched.
void ReadExtras(const HeadParams& params, const std::vector<ConstTensorView>& inputs,
                std::span<const int32_t> indices, std::vector<float>& values) {
  const ConstTensorView& head = inputs.front();
  const size_t first_row = FirstRowBelowScores(params);
  const auto count = static_cast<size_t>(ExtraValues(params));
  values.clear();
  for (const int32_t index : indices) {
    ReadColumn(head, first_row, count, index, [&](float value) { values.push_back(value); });
  }
}

void ReadRotatedBoxes(const HeadParams& params, const std::vector<ConstTensorView>& inputs,
                      std::span<const int32_t> indices, std::vector<float>& boxes_xywhr) {
  const ConstTensorView& head = inputs.front();
  const bool normalized = params.ResolvedBoxUnit() == BoxUnit::kNormalized;
  const float width = normalized ? static_cast<float>(params.input_width) : 1.0F;
  const float height = normalized ? static_cast<float>(params.input_height) : 1.0F;
  const std::array<float, 4> units = {width, height, width, height};
  boxes_xywhr.clear();
  for (const int32_t index : indices) {
    auto unit = units.begin();
    ReadColumn(head, 0, 4, index, [&](float side) { boxes_xywhr.push_back(side * *unit++); });
    ReadColumn(head, FirstRowBelowScores(params), 1, index,
               [&](float angle) { boxes_xywhr.push_back(angle); });
  }
}

}  // namespace endcap
