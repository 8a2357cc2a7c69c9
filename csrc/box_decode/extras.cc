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

}  // namespace

// Columns of `head` [4+C+extra, A], below the scores. Only those of the kept are touched.
void ReadExtras(const HeadParams& params, const std::vector<ConstTensorView>& inputs,
                std::span<const int32_t> indices, std::vector<float>& values) {
  const ConstTensorView& head = inputs.front();
  const auto anchors = static_cast<size_t>(head.shape[1]);
  const auto first_row = static_cast<size_t>(4 + params.num_classes);
  const auto count = static_cast<size_t>(ExtraValues(params));
  values.resize(indices.size() * count);
  size_t place = 0;
  for (const int32_t index : indices) {
    for (size_t row = first_row; row < first_row + count; ++row) {
      const float value = ValueAt(head, row * anchors + static_cast<size_t>(index));
      if (!std::isfinite(value)) {
        FailArgument("head has ", value, " in row ", row, " of anchor ", index);
      }
      values[place++] = value;
    }
  }
}

}  // namespace endcap
