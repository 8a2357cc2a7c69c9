#include "box_decode/cuda/head_batch.h"

#include "box_decode/families.h"
#include "box_decode/head_input.h"
#include "box_decode/score_rows.h"
#include "common/fail.h"

namespace endcap {

void CheckHead(const HeadParams& params, HeadTensors head) {
  const HeadSpecs specs = MakeHeadSpecs(params);
  if (head.size() != specs.count) {
    FailArgument("head ", HeadFamilyName(params.family), " came with ", head.size(),
                 " tensors: it needs ", specs.count);
  }
  for (size_t i = 0; i < specs.count; ++i) CheckHeadTensor(specs.specs[i], head[i]);
  const HeadLayout layout = GetFamily(params.family).layout;
  // The others have all rows in one tensor.
  if (layout == HeadLayout::kScoreRows || layout == HeadLayout::kDetectionRows) {
    CheckRowCounts(params, head);
  }
}

uint64_t CountRows(HeadFamily family, HeadTensors head) noexcept {
  const HeadFamilyInfo& info = GetFamily(family);
  return static_cast<uint64_t>(head[info.rows_input].shape[info.rows_axis]);
}

HeadRule MakeHeadRule(const HeadParams& params) {
  const HeadLayout layout = GetFamily(params.family).layout;
  Activation activation = params.ResolvedActivation();
  // These networks give scores, whatever the activation says.
  if (layout == HeadLayout::kDetectionRows) activation = Activation::kNone;
  std::vector<float> class_limits;
  FillClassLimits(params, class_limits);
  const float limit = LowestLimit(params, class_limits);
  const bool at_anchors = ResolveAnchors(params).source != AnchorSource::kNone;
  return {layout,
          at_anchors ? BoxFormat::kCxcywh : params.ResolvedBoxFormat(),
          params.ResolvedBoxUnit(),
          activation,
          params.num_classes,
          params.ResolvedMultiLabel() ? 1 : 0,
          static_cast<float>(params.input_width),
          static_cast<float>(params.input_height),
          limit,
          RowLimit(activation, params.ResolvedBackground() != Background::kNone, limit),
          MakeScoreRowRule(params),
          MakeDetectionRowsRule(params),
          GetAnchorValues(params),
          static_cast<uint32_t>(ExtraValues(params)),
          params.on_nan == OnNan::kDrop ? 1 : 0,
          MakeAnchorRule(params),
          nullptr};
}

uint64_t MostCandidates(const HeadParams& params, uint64_t rows) noexcept {
  const bool every_class =
      params.ResolvedMultiLabel() && PositionHoldsClass(GetFamily(params.family).layout);
  return every_class ? rows * static_cast<uint64_t>(params.num_classes) : rows;
}

}  // namespace endcap
