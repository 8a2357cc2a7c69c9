#include "postprocess/extra_outputs.h"

#include <algorithm>

#include "common/score_order.h"
#include "postprocess/instance_masks.h"
#include "postprocess/output_rows.h"

namespace endcap {

void ExtraScratch::Trim() {
  TrimScratch(values);
  TrimScratch(boxes);
  TrimScratch(prototypes);
}

void WriteExtras(const PostprocessParams& params, const PostprocessInput& input,
                 const KeptDetections& detections, ExtraScratch& scratch,
                 const PostprocessOutput& output) {
  const HeadParams& head = params.head;
  if (ExtraValues(head) == 0) return;
  scratch.indices.clear();
  for (const int64_t from : detections.kept) {
    scratch.indices.push_back(detections.candidates.indices[static_cast<size_t>(from)]);
  }
  if (head.family == HeadFamily::kYolov8Seg) {
    WriteMasks(params, input, detections, scratch, output);
  } else if (void* keypoints = output.tensors[kExtraOutput].data) {
    ReadExtras(head, input.head, scratch.indices, scratch.values);
    WriteKeypoints(head, scratch.values, detections.geometry, static_cast<float*>(keypoints));
  }
}

void WriteEmptyExtras(const PostprocessParams& params, const PostprocessOutput& output) {
  if (GivesRle(params) && output.rle != nullptr) output.rle->clear();
}

}  // namespace endcap
