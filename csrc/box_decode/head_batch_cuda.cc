#include "box_decode/head_batch_cuda.h"

#include "box_decode/families.h"
#include "box_decode/score.h"
#include "common/score_order.h"

namespace endcap {

HeadRule MakeHeadRule(const HeadParams& params) {
  Activation activation = params.activation;
  if (activation == Activation::kFamilyDefault) {
    const bool classifies = params.family == HeadFamily::kClassification;
    activation = classifies ? Activation::kSoftmax : Activation::kNone;
  }
  // efficient_nms gives scores, whatever the activation says.
  if (params.family == HeadFamily::kEfficientNms) activation = Activation::kNone;
  const float limit = FloatBelow(params.score_threshold);
  return {params.family,
          ResolvedBoxFormat(params),
          params.box_unit,
          activation,
          params.num_classes,
          params.multi_label ? 1 : 0,
          static_cast<float>(params.input_width),
          static_cast<float>(params.input_height),
          limit,
          RawLimit(activation, limit)};
}

uint64_t MostCandidates(const HeadParams& params, uint64_t rows) noexcept {
  const bool every_class = params.multi_label && PositionHoldsClass(params.family);
  return every_class ? rows * static_cast<uint64_t>(params.num_classes) : rows;
}

}  // namespace endcap
