#include "box_decode/head_batch_cuda.h"

#include "box_decode/families.h"
#include "box_decode/score.h"
#include "common/score_order.h"

namespace endcap {

bool RunsOnCuda(HeadFamily family) noexcept {
  switch (family) {
    case HeadFamily::kYolov5:
    case HeadFamily::kYolov8:
    case HeadFamily::kYolov8Pose:
    case HeadFamily::kYolov8Obb:
    case HeadFamily::kEnd2End:
    case HeadFamily::kEfficientNms:
    case HeadFamily::kClassification:
      return true;
    default:
      return false;
  }
}

HeadRule MakeHeadRule(const HeadParams& params) {
  Activation activation = params.ResolvedActivation();
  // efficient_nms gives scores, whatever the activation says.
  if (params.family == HeadFamily::kEfficientNms) activation = Activation::kNone;
  const float limit = FloatBelow(params.score_threshold);
  return {PlainFamily(params.family),
          params.ResolvedBoxFormat(),
          params.ResolvedBoxUnit(),
          activation,
          params.num_classes,
          params.ResolvedMultiLabel() ? 1 : 0,
          static_cast<float>(params.input_width),
          static_cast<float>(params.input_height),
          limit,
          RawLimit(activation, limit)};
}

uint64_t MostCandidates(const HeadParams& params, uint64_t rows) noexcept {
  const bool every_class =
      params.ResolvedMultiLabel() && PositionHoldsClass(PlainFamily(params.family));
  return every_class ? rows * static_cast<uint64_t>(params.num_classes) : rows;
}

}  // namespace endcap
