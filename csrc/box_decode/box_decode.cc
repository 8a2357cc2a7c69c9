#include "endcap/box_decode.h"

#include <array>
#include <cmath>

#include "box_decode/candidate_list.h"
#include "box_decode/families.h"
#include "box_decode/head_input.h"
#include "common/fail.h"
#include "common/half.h"
#include "common/select_implementation.h"

namespace endcap {
namespace {

DecodeFunction* SelectDecoder(const HeadFamilyInfo& family, Implementation implementation) {
  DecodeFunction* decode = implementation == Implementation::kSimd ? family.simd : family.scalar;
  if (decode == nullptr) FailArgument("head ", family.name, " has no boxes: use Classify");
  return decode;
}

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

std::vector<TensorSpec> HeadInputs(const HeadParams& params) {
  const HeadSpecs heads = MakeHeadSpecs(params);
  return {heads.specs.begin(), heads.specs.begin() + static_cast<ptrdiff_t>(heads.count)};
}

void BoxDecode(const HeadParams& params, const std::vector<ConstTensorView>& inputs,
               Candidates& candidates) {
  const HeadFamilyInfo& family = GetFamily(params.family);
  const HeadSpecs specs = family.specs(params);
  if (inputs.size() != specs.count) {
    FailArgument("head ", family.name, " came with ", inputs.size(), " tensors: it needs ",
                 specs.count);
  }
  // The prototypes are read only when it is known what is kept.
  if (family.extra == HeadExtra::kMaskCoefficients) CheckHostTensor(specs.specs[1], inputs[1]);
  DecodeFunction* decode = SelectDecoder(family, SelectImplementation(Stage::kBoxDecode));
  thread_local DecodeScratch scratch;
  const TrimAtEnd trim(scratch);
  decode(params, inputs, scratch, candidates);
}

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
