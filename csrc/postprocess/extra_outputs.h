#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "endcap/box_decode.h"
#include "endcap/postprocess.h"
#include "postprocess/map_extras.h"

namespace endcap {

// Memory that a thread keeps from item to item.
struct ExtraScratch {
  std::vector<int32_t> indices;
  std::vector<float> values;
  std::vector<float> boxes;  // with angles: xywhr of every candidate; with masks: xyxy of the kept
  std::vector<float> prototypes;  // or the logits of the kept queries' masks

  void Trim();
};

// One image's detections, after suppression.
struct KeptDetections {
  const Candidates& candidates;
  std::span<const int64_t> kept;  // those that have been written as rows
  const Geometry* geometry;       // as for WriteDetections
};

// Writes the family's own outputs for the detections. Throws as ReadExtras and EncodeMasks.
void WriteExtras(const PostprocessParams& params, const PostprocessInput& input,
                 const KeptDetections& detections, ExtraScratch& scratch,
                 const PostprocessOutput& output);

// What an image without detections has of the family's own outputs, beside zeros.
void WriteEmptyExtras(const PostprocessParams& params, const PostprocessOutput& output);

KeypointRule MakeKeypointRule(const HeadParams& head);

}  // namespace endcap
