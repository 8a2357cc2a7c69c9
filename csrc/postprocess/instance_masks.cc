#include "postprocess/instance_masks.h"

#include <algorithm>

#include "common/half.h"
#include "common/select_implementation.h"
#include "endcap/masks.h"
#include "postprocess/output_rows.h"

namespace endcap {
namespace {

// The tensor's numbers, in `memory` where they are float16.
const float* AsFloats(const ConstTensorView& view, Implementation implementation,
                      std::vector<float>& memory) {
  if (view.dtype == DType::kFloat32) return static_cast<const float*>(view.data);
  const auto count = static_cast<size_t>(view.size());
  memory.resize(count);
  HalvesToFloats({static_cast<const uint16_t*>(view.data), count}, implementation, memory.data());
  return memory.data();
}

void GatherBoxes(const KeptDetections& detections, std::vector<float>& boxes) {
  boxes.resize(4 * detections.kept.size());
  float* to = boxes.data();
  for (const int64_t from : detections.kept) {
    to = std::copy_n(detections.candidates.boxes_xyxy.data() + 4 * from, 4, to);
  }
}

}  // namespace

void WriteMasks(const PostprocessParams& params, const PostprocessInput& input,
                const KeptDetections& detections, ExtraScratch& scratch,
                const PostprocessOutput& output) {
  const HeadParams& head = params.head;
  auto* size_out = static_cast<int32_t*>(output.tensors[kExtraOutput].data);
  const bool packs = params.mask_resolution != MaskResolution::kSource;
  auto* packed = packs ? static_cast<uint8_t*>(output.tensors[kExtraOutput + 1].data) : nullptr;
  MaskPrototypes prototypes = {nullptr, head.mask_coefficients, head.prototype_height,
                               head.prototype_width};
  const MaskPlan plan = {params.mask_resolution, head.input_height, head.input_width,
                         detections.geometry};
  const MaskSize size = ComputeMaskSize(prototypes, plan);
  if (size_out != nullptr) {
    size_out[0] = size.height;
    size_out[1] = size.width;
  }
  if (detections.kept.empty() || (packed == nullptr && output.rle == nullptr)) return;
  const Implementation implementation = SelectImplementation(Stage::kMasks);
  prototypes.data = AsFloats(input.head[1], implementation, scratch.prototypes);
  ReadExtras(head, input.head, scratch.indices, scratch.values);
  GatherBoxes(detections, scratch.boxes);
  const MaskDetections masks = {scratch.values, scratch.boxes, scratch.indices};
  if (packed != nullptr) WritePackedMasks(prototypes, masks, plan, implementation, packed);
  if (output.rle != nullptr) EncodeMasks(prototypes, masks, plan, implementation, *output.rle);
}

}  // namespace endcap
