#include "box_decode/candidate_list.h"
#include "box_decode/families.h"
#include "box_decode/head_input.h"
#include "box_decode/head_scan.h"
#include "box_decode/score.h"

namespace endcap {
namespace {

// The best class of every anchor, read row by row as the head lies in memory. The activation is
// monotonic, so raw scores can be compared.
void FindBestClasses(const HeadInput& head, int num_classes, DecodeScratch& scratch) {
  const auto anchors = static_cast<size_t>(head.row_length());
  const float* first = head.row(4);
  scratch.best.assign(first, first + anchors);
  scratch.best_class.assign(anchors, 0);
  for (int c = 1; c < num_classes; ++c) {
    const float* scores = head.row(4 + c);
    for (size_t a = 0; a < anchors; ++a) {
      if (scores[a] > scratch.best[a]) {
        scratch.best[a] = scores[a];
        scratch.best_class[a] = c;
      }
    }
  }
}

// What both implementations of yolov8 do when the scores have been read. Positions are those of
// AnchorLabel.
void FinishYolov8(const HeadParams& params, const HeadInput& head, CandidateList& list,
                  const DecodeScratch& scratch, Candidates& candidates) {
  const auto read_box = [&](int32_t a) {
    return BoxXyxy{head.At(0, a), head.At(1, a), head.At(2, a), head.At(3, a)};
  };
  const auto label = [&](uint32_t position) { return AnchorLabel(params, scratch, position); };
  list.Finish(head.row_length(), params.ResolvedBoxFormat(), label, read_box, candidates);
}

bool AddEveryClass(const HeadParams& params, const HeadInput& head, DecodeScratch& scratch,
                   CandidateList& list) {
  const Activation activation = params.ResolvedActivation();
  const auto anchors = static_cast<size_t>(head.row_length());
  const auto classes = static_cast<uint32_t>(params.num_classes);
  bool may_hold_nan = false;
  for (uint32_t c = 0; c < classes; ++c) {
    const HeadValues scores = head.values().Part((4 + c) * anchors, anchors);
    const float limit = RawLimit(activation, list.ScoreLimit());
    const ScanResult found = ScanGreater(scores, limit, scratch.passing.data());
    may_hold_nan |= found.may_hold_nan;
    scores.Visit([&](const auto* first) {
      for (size_t i = 0; i < found.passing; ++i) {
        const uint32_t anchor = scratch.passing[i];
        list.Add(ActivateScore(activation, ToFloat(first[anchor])), anchor * classes + c, c);
      }
    });
  }
  return may_hold_nan;
}

bool AddBestClass(const HeadParams& params, const HeadInput& head, DecodeScratch& scratch,
                  CandidateList& list) {
  const Activation activation = params.ResolvedActivation();
  const auto anchors = static_cast<size_t>(head.row_length());
  scratch.best.resize(anchors + kScanRoom);
  scratch.best_class.resize(anchors + kScanRoom);
  const float limit = RawLimit(activation, list.ScoreLimit());
  const auto classes = static_cast<size_t>(params.num_classes);
  const ScanResult found =
      ScanBest(head.values().Part(4 * anchors, classes * anchors), classes, anchors, limit,
               {scratch.passing.data(), scratch.best.data(), scratch.best_class.data()});
  for (size_t i = 0; i < found.passing; ++i) {
    const uint32_t anchor = scratch.passing[i];
    list.Add(ActivateScore(activation, scratch.best[anchor]), anchor,
             static_cast<uint32_t>(scratch.best_class[anchor]));
  }
  return found.may_hold_nan;
}

}  // namespace

// `head` [4+C+extra, A]: four rows of boxes, then one row of scores for each class.
void DecodeYolov8(const HeadParams& params, HeadTensors inputs, DecodeScratch& scratch,
                  Candidates& candidates) {
  const HeadInput head(MakeHeadSpecs(params).specs[0], inputs[0], scratch.head);
  CandidateList list(params, inputs, scratch);
  list.CheckNan(head, 4 + params.num_classes);
  const auto anchors = static_cast<uint32_t>(head.row_length());
  const auto classes = static_cast<uint32_t>(params.num_classes);
  const Activation activation = params.ResolvedActivation();
  if (params.ResolvedMultiLabel()) {
    for (uint32_t c = 0; c < classes; ++c) {
      const float* scores = head.row(4 + c);
      for (uint32_t a = 0; a < anchors; ++a) {
        list.Add(ActivateScore(activation, scores[a]), a * classes + c, c);
      }
    }
  } else {
    FindBestClasses(head, params.num_classes, scratch);
    for (uint32_t a = 0; a < anchors; ++a) {
      list.Add(ActivateScore(activation, scratch.best[a]), a,
               static_cast<uint32_t>(scratch.best_class[a]));
    }
  }
  FinishYolov8(params, head, list, scratch, candidates);
}

// The scores are read once; the activation is for the few that can pass.
void DecodeYolov8Simd(const HeadParams& params, HeadTensors inputs, DecodeScratch& scratch,
                      Candidates& candidates) {
  const HeadInput head(MakeHeadSpecs(params).specs[0], inputs[0]);
  const auto anchors = static_cast<size_t>(head.row_length());
  scratch.passing.resize(anchors + kScanRoom);
  CandidateList list(params, inputs, scratch);
  bool may_hold_nan = params.ResolvedMultiLabel() ? AddEveryClass(params, head, scratch, list)
                                                  : AddBestClass(params, head, scratch, list);
  // The boxes last: those of the candidates are then in a cache when they are read again.
  may_hold_nan |= MayHoldNan(head.values().Part(0, 4 * anchors));
  // A scan may have misread the other scores of an anchor that holds a NaN, which is dropped.
  if (may_hold_nan) list.CheckNan(head, 4 + params.num_classes);
  FinishYolov8(params, head, list, scratch, candidates);
}

}  // namespace endcap
