#include "postprocess/extra_outputs.h"

#include "postprocess/output_rows.h"

namespace endcap {

void WriteExtras(const PostprocessParams& params, const PostprocessInput& input,
                 const Candidates& candidates, std::span<const int64_t> kept,
                 const Geometry* geometry, ExtraScratch& scratch, const PostprocessOutput& output) {
  const HeadParams& head = params.head;
  if (ExtraValues(head) == 0) return;
  scratch.indices.clear();
  for (const int64_t from : kept) {
    scratch.indices.push_back(candidates.indices[static_cast<size_t>(from)]);
  }
  void* extra = output.tensors[kExtraOutput].data;
  if (head.family == HeadFamily::kYolov8Pose && extra != nullptr) {
    ReadExtras(head, input.head, scratch.indices, scratch.values);
    WriteKeypoints(head, scratch.values, geometry, static_cast<float*>(extra));
  }
}

}  // namespace endcap
