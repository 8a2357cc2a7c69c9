#include "box_decode/head_scan.h"
#include "box_decode/score.h"
#include "box_decode/yolov5.h"

namespace endcap {

// Rows that cannot give a candidate are left out; the others are read as the definition reads them.
void DecodeYolov5Simd(const HeadParams& params, HeadTensors inputs, DecodeScratch& scratch,
                      Candidates& candidates) {
  const HeadInput head(MakeHeadSpecs(params).specs[0], inputs[0], scratch.head,
                       Implementation::kSimd);
  const auto anchors = static_cast<size_t>(head.rows());
  scratch.passing.resize(anchors + kScanRoom);
  scratch.best_class.resize(anchors);
  CandidateList list(params, scratch);
  const ObjectnessLimits limits{list.ScoreLimit(), params.activation == Activation::kSigmoid,
                                RawLimit(params.activation, list.ScoreLimit())};
  const ScanResult found =
      ScanRows(head.values().data(), anchors, static_cast<size_t>(params.num_classes), limits,
               scratch.passing.data());
  if (found.may_hold_nan) {
    head.RefuseNan();
    // Infinite numbers, then: their products may be NaN, in rows that were left out too.
    AddYolov5Rows(params, head, scratch, list);
  } else {
    for (size_t i = 0; i < found.passing; ++i) {
      AddYolov5Row(params, head, scratch.passing[i], scratch, list);
    }
  }
  FinishYolov5(params, head, list, scratch, candidates);
}

}  // namespace endcap
