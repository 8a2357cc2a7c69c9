#include "postprocess/extra_outputs.h"

#include "common/score_order.h"
#include "postprocess/instance_masks.h"
#include "postprocess/output_rows.h"
#include "postprocess/rotated_boxes.h"

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
  void* extra = output.tensors[kExtraOutput].data;
  if (head.family == HeadFamily::kYolov8Seg) {
    WriteMasks(params, input, detections, scratch, output);
  } else if (head.family == HeadFamily::kYolov8Obb) {
    WriteRotatedBoxes(scratch.boxes, detections.kept, detections.geometry, output);
  } else if (extra != nullptr) {
    ReadExtras(head, input.head, scratch.indices, scratch.values);
    WriteKeypoints(head, scratch.values, detections.geometry, static_cast<float*>(extra));
  }
}

void WriteEmptyExtras(const PostprocessParams& params, const PostprocessOutput& output) {
  if (GivesRle(params) && output.rle != nullptr) output.rle->clear();
}

}  // namespace endcap
