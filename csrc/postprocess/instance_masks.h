#pragma once

#include "postprocess/extra_outputs.h"

namespace endcap {

// yolov8_seg: mask_size, and the masks of the detections in the forms that `output` wants. The
// outputs hold zeros. scratch.indices are the detections' anchors.
void WriteMasks(const PostprocessParams& params, const PostprocessInput& input,
                const KeptDetections& detections, ExtraScratch& scratch,
                const PostprocessOutput& output);

}  // namespace endcap
