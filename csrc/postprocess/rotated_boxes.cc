#include "postprocess/rotated_boxes.h"

#include "postprocess/output_rows.h"
#include "postprocess/rotated_source.h"

namespace endcap {

void WriteRotatedBoxes(std::span<const float> boxes_xywhr, std::span<const int64_t> kept,
                       const Geometry* geometry, const PostprocessOutput& output) {
  auto* corners = static_cast<float*>(output.tensors[kBoxesAt].data);
  auto* angles = static_cast<float*>(output.tensors[kExtraOutput].data);
  for (const int64_t from : kept) {
    const SourceBox box = RotatedToSource(boxes_xywhr.data() + 5 * from, geometry);
    if (angles != nullptr) *angles++ = static_cast<float>(box.angle);
    if (corners == nullptr) continue;
    UnturnedCorners(box, corners);
    corners += 4;
  }
}

}  // namespace endcap
