#include <algorithm>

#include "box_decode/families.h"
#include "box_decode/head_input.h"
#include "common/half.h"
#include "common/select_implementation.h"
#include "endcap/masks.h"
#include "postprocess/outputs.h"

namespace endcap {
namespace {

// Keypoints [N][P][3] of values [N][P * keypoint_values] as ReadExtras gives them: mapped by
// `geometry` (null: as they are). Without a visibility, it is 1.
void WriteKeypoints(const HeadParams& head, std::span<const float> values, const Geometry* geometry,
                    float* keypoints) {
  const KeypointRule rule = MakeKeypointRule(head);
  const auto step = static_cast<size_t>(head.keypoint_values);
  for (size_t at = 0; at + step <= values.size(); at += step) {
    MakeKeypoint(rule, values.data() + at, geometry, keypoints);
    keypoints += 3;
  }
}

// Writes the boxes `kept` of boxes_xywhr [N][5]: their corners before rotation, and their
// angles, in pixels of the source image as of RotatedToSource (geometry null: as they are), as of
// PostprocessOutputs.
void WriteRotatedBoxes(AngleRange range, std::span<const float> boxes_xywhr,
                       std::span<const int64_t> kept, const Geometry* geometry,
                       const PostprocessOutput& output) {
  auto* corners = Output<float>(output, kBoxesOutput);
  auto* angles = Output<float>(output, kExtraOutput);
  for (const int64_t from : kept) {
    SourceBox box = RotatedToSource(boxes_xywhr.data() + 5 * from, geometry);
    if (range == AngleRange::kLe90) box = ToLe90(box);
    if (angles != nullptr) *angles++ = static_cast<float>(box.angle);
    if (corners == nullptr) continue;
    UnrotatedCorners(box, corners);
    corners += 4;
  }
}

// The masks of the kept queries as float32, one behind the other.
const float* GatherMaskLogits(const ConstTensorView& masks, std::span<const int32_t> queries,
                              Implementation implementation, std::vector<float>& memory) {
  const HeadValues values(masks);
  const auto pixels = static_cast<size_t>(masks.shape[1] * masks.shape[2]);
  memory.resize(pixels * queries.size());
  float* to = memory.data();
  for (const int32_t query : queries) {
    const HeadValues mask = values.Part(pixels * static_cast<size_t>(query), pixels);
    if (mask.is_half()) {
      HalvesToFloats({mask.halves(), pixels}, implementation, to);
    } else {
      std::copy_n(mask.floats(), pixels, to);
    }
    to += pixels;
  }
  return memory.data();
}

void GatherBoxes(const KeptDetections& detections, std::vector<float>& boxes) {
  boxes.resize(4 * detections.kept.size());
  float* to = boxes.data();
  for (const int64_t from : detections.kept) {
    to = std::copy_n(detections.candidates.boxes_xyxy.data() + 4 * from, 4, to);
  }
}

// The masks of queries are not cut by their boxes.
void RepeatInputBox(const HeadParams& head, size_t count, std::vector<float>& boxes) {
  boxes.clear();
  for (size_t i = 0; i < count; ++i) {
    boxes.insert(boxes.end(), {0.0F, 0.0F, static_cast<float>(head.input_width),
                               static_cast<float>(head.input_height)});
  }
}

// Heads with masks: mask_size, and the masks of the detections in the forms that `output` wants.
// The outputs hold zeros. scratch.indices are the detections' anchors.
void WriteMasks(const PostprocessParams& params, const PostprocessInput& input,
                const KeptDetections& detections, ExtraScratch& scratch,
                const PostprocessOutput& output) {
  const HeadParams& head = params.head;
  auto* size_out = Output<int32_t>(output, kExtraOutput);
  const bool packs = params.mask_resolution != MaskResolution::kSource;
  auto* packed = packs ? Output<uint8_t>(output, kExtraOutput + 1) : nullptr;
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
  const ConstTensorView& tensor = input.head[MaskInput(head)];
  ReadExtras(head, input.head, scratch.indices, scratch.values);
  if (GetFamily(head.family).extra == HeadExtra::kMaskLogits) {
    prototypes.count = static_cast<int>(scratch.indices.size());
    prototypes.data = GatherMaskLogits(tensor, scratch.indices, implementation, scratch.prototypes);
    RepeatInputBox(head, scratch.indices.size(), scratch.boxes);
  } else {
    prototypes.data = HeadValues(tensor).AsFloats(implementation, scratch.prototypes);
    GatherBoxes(detections, scratch.boxes);
  }
  const MaskDetections masks = {scratch.values, scratch.boxes, scratch.indices};
  if (packed != nullptr) WritePackedMasks(prototypes, masks, plan, implementation, packed);
  if (output.rle != nullptr) EncodeMasks(prototypes, masks, plan, implementation, *output.rle);
}

}  // namespace

KeypointRule MakeKeypointRule(const HeadParams& head) {
  const bool normalized = head.ResolvedBoxUnit() == BoxUnit::kNormalized;
  return {normalized ? static_cast<float>(head.input_width) : 1.0F,
          normalized ? static_cast<float>(head.input_height) : 1.0F, head.keypoint_values == 3};
}

void WriteExtras(const PostprocessParams& params, const PostprocessInput& input,
                 const KeptDetections& detections, ExtraScratch& scratch,
                 const PostprocessOutput& output) {
  const HeadParams& head = params.head;
  const HeadExtra kind = GetFamily(head.family).extra;
  if (kind == HeadExtra::kNone) return;
  scratch.indices.clear();
  for (const int64_t from : detections.kept) {
    scratch.indices.push_back(detections.candidates.indices[static_cast<size_t>(from)]);
  }
  switch (kind) {
    case HeadExtra::kNone:
      return;
    case HeadExtra::kMaskCoefficients:
    case HeadExtra::kMaskLogits:
      return WriteMasks(params, input, detections, scratch, output);
    case HeadExtra::kAngle:
      return WriteRotatedBoxes(params.angle_range, scratch.boxes, detections.kept,
                               detections.geometry, output);
    case HeadExtra::kKeypoints:
      if (auto* keypoints = Output<float>(output, kExtraOutput)) {
        ReadExtras(head, input.head, scratch.indices, scratch.values);
        WriteKeypoints(head, scratch.values, detections.geometry, keypoints);
      }
      return;
  }
}

}  // namespace endcap
