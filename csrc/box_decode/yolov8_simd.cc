#include "box_decode/head_scan.h"
#include "box_decode/score.h"
#include "box_decode/yolov8.h"

namespace endcap {
namespace {

bool AddEveryClass(const HeadParams& params, const HeadInput& head, DecodeScratch& scratch,
                   CandidateList& list) {
  const auto anchors = static_cast<size_t>(head.row_length());
  const auto classes = static_cast<uint32_t>(params.num_classes);
  bool may_hold_nan = false;
  for (uint32_t c = 0; c < classes; ++c) {
    const float* scores = head.row(4 + c);
    const float limit = RawLimit(params.activation, list.ScoreLimit());
    const ScanResult found = ScanGreater({scores, anchors}, limit, scratch.passing.data());
    may_hold_nan |= found.may_hold_nan;
    for (size_t i = 0; i < found.passing; ++i) {
      const uint32_t anchor = scratch.passing[i];
      list.Add(ActivateScore(params.activation, scores[anchor]), anchor * classes + c);
    }
  }
  return may_hold_nan;
}

bool AddBestClass(const HeadParams& params, const HeadInput& head, DecodeScratch& scratch,
                  CandidateList& list) {
  const auto anchors = static_cast<size_t>(head.row_length());
  scratch.best.resize(anchors + kScanRoom);
  scratch.best_class.resize(anchors + kScanRoom);
  const float limit = RawLimit(params.activation, list.ScoreLimit());
  const ScanResult found =
      ScanBest(head.row(4), static_cast<size_t>(params.num_classes), anchors, limit,
               scratch.passing.data(), scratch.best.data(), scratch.best_class.data());
  for (size_t i = 0; i < found.passing; ++i) {
    const uint32_t anchor = scratch.passing[i];
    list.Add(ActivateScore(params.activation, scratch.best[anchor]), anchor);
  }
  return found.may_hold_nan;
}

}  // namespace

// The scores are read once; the activation is for the few that can pass.
void DecodeYolov8Simd(const HeadParams& params, HeadTensors inputs, DecodeScratch& scratch,
                      Candidates& candidates) {
  const HeadInput head(MakeHeadSpecs(params).specs[0], inputs[0], scratch.head,
                       Implementation::kSimd);
  const auto anchors = static_cast<size_t>(head.row_length());
  scratch.passing.resize(anchors + kScanRoom);
  CandidateList list(params, scratch);
  bool may_hold_nan = params.ResolvedMultiLabel() ? AddEveryClass(params, head, scratch, list)
                                                  : AddBestClass(params, head, scratch, list);
  // The boxes last: those of the candidates are then in a cache when they are read again.
  may_hold_nan |= MayHoldNan(head.values().first(4 * anchors));
  if (may_hold_nan) head.RefuseNan(4 + params.num_classes);
  FinishYolov8(params, head, list, scratch, candidates);
}

}  // namespace endcap
