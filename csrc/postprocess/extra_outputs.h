#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "endcap/box_decode.h"
#include "endcap/postprocess.h"

namespace endcap {

// Memory that a thread keeps from item to item.
struct ExtraScratch {
  std::vector<int32_t> indices;
  std::vector<float> values;
};

// Writes the family's own outputs for the first `rows` of `kept`, the detections that have been
// written. `geometry` as for WriteDetections. Throws as ReadExtras.
void WriteExtras(const PostprocessParams& params, const PostprocessInput& input,
                 const Candidates& candidates, std::span<const int64_t> kept,
                 const Geometry* geometry, ExtraScratch& scratch, const PostprocessOutput& output);

}  // namespace endcap
