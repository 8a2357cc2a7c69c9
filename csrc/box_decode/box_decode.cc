#include "endcap/box_decode.h"

#include <array>
#include <cmath>
#include <cstdint>

#include "box_decode/candidate_list.h"
#include "box_decode/families.h"
#include "box_decode/head_input.h"
#include "common/fail.h"
#include "common/select_implementation.h"

namespace endcap {
namespace {

// Calls take(number) for a range of an anchor's values.
template <typename Take>
void ReadAnchorValues(const HeadParams& params, const ConstTensorView& head, uint32_t first,
                      uint32_t count, int32_t anchor, Take take) {
  const AnchorValues values = GetAnchorValues(params);
  const auto anchors = static_cast<uint64_t>(head.shape[1]);
  const HeadValues numbers(head);
  for (uint32_t value = first; value < first + count; ++value) {
    const float number = numbers[values.At(anchors, value, static_cast<uint64_t>(anchor))];
    if (!std::isfinite(number)) {
      FailAnchorValue(params, number, value, static_cast<uint32_t>(anchor));
    }
    take(number);
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
  const HeadSpecs specs = MakeHeadSpecs(params);
  if (inputs.size() != specs.count) {
    FailArgument("head ", family.name, " came with ", inputs.size(), " tensors: it needs ",
                 specs.count);
  }
  // The input of the masks is read only when it is known what is kept.
  if (HasMasks(params.family)) {
    const size_t masks = MaskInput(params);
    CheckHostTensor(specs.specs[masks], inputs[masks]);
  }
  const bool is_simd = SelectImplementation(Stage::kBoxDecode) == Implementation::kSimd;
  DecodeFunction* decode = is_simd ? family.simd : family.scalar;
  if (decode == nullptr) FailArgument("head ", family.name, " has no boxes: use a Postprocessor");
  thread_local DecodeScratch scratch;
  const TrimOnExit trim(scratch);
  decode(params, inputs, scratch, candidates);
}

// Only the values of the kept are touched.
void ReadExtras(const HeadParams& params, const std::vector<ConstTensorView>& inputs,
                std::span<const int32_t> indices, std::vector<float>& values) {
  const ConstTensorView& head = inputs.front();
  const uint32_t first = GetAnchorValues(params).first_extra;
  const auto count = static_cast<uint32_t>(ExtraValues(params));
  values.clear();
  for (const int32_t index : indices) {
    ReadAnchorValues(params, head, first, count, index,
                     [&](float number) { values.push_back(number); });
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
    ReadAnchorValues(params, head, 0, 4, index,
                     [&](float side) { boxes_xywhr.push_back(side * *unit++); });
    ReadAnchorValues(params, head, GetAnchorValues(params).first_extra, 1, index,
                     [&](float angle) { boxes_xywhr.push_back(angle); });
  }
}

}  // namespace endcap
