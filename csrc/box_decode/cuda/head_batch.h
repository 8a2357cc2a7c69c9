#pragma once

#include <cstdint>

#include "box_decode/anchors.h"
#include "box_decode/families.h"
#include "box_decode/score.h"
#include "common/host_device.h"
#include "endcap/box_decode.h"

namespace endcap {

// What box_decode's kernels take as their argument: no pointer to host memory in it, so that a
// launch can be captured into a graph unmodified.

inline constexpr int kMaxBatchImages = 64;

// HeadParams as kernels need them; every default filled in.
struct HeadRule {
  HeadLayout layout;
  BoxFormat box_format;  // ssd's boxes at anchors are centres and sizes
  BoxUnit box_unit;
  Activation activation;
  int32_t num_classes;
  int32_t multi_label;
  float input_width;
  float input_height;
  float score_limit;  // a candidate's score must be greater; the least of class_limits
  float raw_limit;    // and its raw score greater than this, see RowLimit for a softmax
  ScoreRowRule rows;
  DetectionRowsRule detection_rows;
  AnchorValues values;
  uint32_t extra_values;  // ExtraValues
  int32_t drops;          // on_nan is kDrop
  AnchorRule anchors;
  float* class_limits;  // [num_classes], see PassesClass: device memory, or null
};

HeadRule MakeHeadRule(const HeadParams& params);

// Checks the tensors of one image, in whatever memory they are. Throws kInvalidArgument for a wrong
// count, shape or dtype, and kUnsupported beyond 2^32 elements.
void CheckHead(const HeadParams& params, HeadTensors head);

// The rows of a checked head, see HeadImage.
uint64_t CountRows(HeadFamily family, HeadTensors head) noexcept;

// How many candidates an image with that many rows can have.
uint64_t MostCandidates(const HeadParams& params, uint64_t rows) noexcept;

struct HeadImage {
  const void* inputs[4];       // device memory, in the order of HeadInputs
  uint32_t rows;               // anchors, rows or (classification) classes
  uint32_t half_inputs;        // bit i: inputs[i] is float16
  uint32_t wide_inputs;        // bit i: inputs[i] is int64
  float* class_probabilities;  // classification: an output, or null
  int32_t blank;               // not 0: nothing of the image is read

  ENDCAP_HOST_DEVICE bool IsHalf(int input) const { return (half_inputs >> input & 1U) != 0; }
  ENDCAP_HOST_DEVICE bool IsWide(int input) const { return (wide_inputs >> input & 1U) != 0; }
};

// What the kernels found in one image. Zeroed before; a "first" is kept as its complement, so that
// the greatest is the first and 0 is none.
struct CandidateState {
  unsigned long long bad_key;    // first candidate whose box or score is not finite
  unsigned long long bad_logit;  // of masks: first that is not finite: detection, MaskPlace
  uint32_t count;                // candidates
  uint32_t nan[4];               // first element that is NaN, of each input
  uint32_t bad_row;    // first row whose score is NaN, whose class is none of the head's, or whose
                       // softmax cannot be taken
  uint32_t bad_count;  // efficient_nms: 1 num_detections is negative, 2 more than the rows
  uint32_t dropped;    // rows that on_nan kDrop leaves out: they have no key, and are noted nowhere
};

// Why a classifier's softmax cannot be taken: the greatest logit is infinite, or all are minus
// infinite.
inline constexpr uint32_t kHighestInf = 0;
inline constexpr uint32_t kHighestLow = 1;

struct HeadBatch {
  HeadRule rule;
  int32_t count;           // images
  uint32_t key_capacity;   // keys of each image: as many as it can have candidates
  uint64_t* keys;          // [count][key_capacity], unsorted
  CandidateState* states;  // [count]
  HeadImage images[kMaxBatchImages];
};

// Candidates are known by ScoreKey(score, position). Positions ascend with (index, class): anchor *
// num_classes + class for layouts with a score for each class, the row for kEnd2EndRows and
// kDetectionRows, the class for kLogits.
ENDCAP_HOST_DEVICE inline bool PositionHoldsClass(HeadLayout layout) {
  return layout == HeadLayout::kObjectnessRows || layout == HeadLayout::kAnchorColumns ||
         layout == HeadLayout::kScoreRows;
}

}  // namespace endcap
