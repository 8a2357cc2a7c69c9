#include "postprocess/cuda/detection_plan.h"

#include <algorithm>
#include <cstring>

#include "box_decode/families.h"
#include "common/fail.h"
#include "common/score_order.h"
#include "masks/masks.h"
#include "postprocess/outputs.h"

namespace endcap {
namespace {

constexpr size_t kScratchBytes = size_t{256} << 20;
constexpr size_t kAlignment = 256;

size_t Aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

void CheckDevice(const HeadParams& params, const std::vector<ConstTensorView>& head,
                 int device_id) {
  for (size_t i = 0; i < head.size(); ++i) {
    if (head[i].device == Device::kCuda && head[i].device_id != device_id) {
      FailArgument(MakeHeadSpecs(params).specs[i].name, " is in memory of GPU ", head[i].device_id,
                   ": the postprocessor runs on GPU ", device_id);
    }
  }
}

// Calls use(view) for the tensors that are to be staged.
template <typename Use>
void ForEachStaged(const PostprocessInput& input, Use use) {
  if (input.status != 0) return;
  for (const ConstTensorView& view : input.head) {
    if (view.device == Device::kCpu) use(view);
  }
}

HeadImage MakeHeadImage(const HeadParams& params, const PostprocessInput& input,
                        const uint8_t*& staged) {
  HeadImage image = {};
  if (input.status != 0) {
    image.blank = 1;
    return image;
  }
  image.rows = static_cast<uint32_t>(CountRows(params.family, input.head));
  for (size_t i = 0; i < input.head.size(); ++i) {
    const ConstTensorView& view = input.head[i];
    image.inputs[i] = view.data;
    if (view.device == Device::kCpu) {
      image.inputs[i] = staged;
      staged += Aligned(view.size_bytes());
    }
    if (view.dtype == DType::kFloat16) image.half_inputs |= 1U << i;
    if (view.dtype == DType::kInt64) image.wide_inputs |= 1U << i;
  }
  return image;
}

// run_lengths: of this image, where it wants them.
DetectionImage MakeDetectionImage(const PostprocessParams& params, const PostprocessInput& input,
                                  const PostprocessOutput& output, RunLengthText* run_lengths) {
  const bool is_seg = HasMasks(params.head.family);
  const bool packs = is_seg && params.mask_resolution != MaskResolution::kSource;
  DetectionImage image = {};
  const std::vector<TensorView>& tensors = output.tensors;
  const size_t plain = std::min(tensors.size() - 1, size_t{kExtraOutput});
  for (size_t i = 0; i < plain; ++i) image.outputs[i] = tensors[i].data;
  image.outputs[plain] = tensors.back().data;
  if (!is_seg && tensors.size() > plain + 1) image.extra = static_cast<float*>(tensors[plain].data);
  if (packs) image.masks = static_cast<uint8_t*>(tensors[plain + 1].data);
  if (is_seg && output.rle != nullptr) image.run_lengths = run_lengths;
  image.status = input.status;
  if (input.geometry != nullptr && input.geometry_device == Device::kCuda) {
    image.geometry = input.geometry;
  } else if (input.geometry != nullptr) {
    std::copy_n(input.geometry, Geometry::kSize, image.values);
    image.has_values = 1;
  }
  return image;
}

void SetMasks(const PostprocessParams& params, std::span<const PostprocessOutput> outputs,
              const RunLengthMemory& runs, DetectionLaunch& launch) {
  const HeadParams& head = params.head;
  const MaskPrototypes prototypes = {nullptr, head.mask_coefficients, head.prototype_height,
                                     head.prototype_width};
  const MaskPlan plan = {params.mask_resolution, head.input_height, head.input_width, nullptr};
  const bool scales = plan.resolution == MaskResolution::kPrototype;
  MaskBatch& masks = launch.masks;
  masks.is_there = 1;
  masks.input = static_cast<int32_t>(MaskInput(head));
  masks.of_source = plan.resolution == MaskResolution::kSource ? 1 : 0;
  masks.axes = MakeMaskAxes(prototypes, plan);
  masks.box_units[0] = scales ? BoxRatio(prototypes.width, plan.input_width) : 1.0F;
  masks.box_units[1] = scales ? BoxRatio(prototypes.height, plan.input_height) : 1.0F;
  masks.row_bytes = static_cast<uint32_t>(ComputeMaskSize(prototypes, plan).packed_row_bytes());
  masks.runs = runs;
  launch.detections.masks_of_source = masks.of_source;
  for (size_t i = 0; i < outputs.size(); ++i) {
    masks.sizes[i] = static_cast<int32_t*>(outputs[i].tensors[kExtraOutput].data);
  }
}

// What the kernels need for the values beside box and scores.
void SetExtra(const PostprocessParams& params, const DetectionGroups& groups,
              std::span<const PostprocessOutput> outputs, const RunLengthMemory& runs,
              DetectionLaunch& launch) {
  const HeadParams& head = params.head;
  DetectionBatch& batch = launch.detections;
  switch (GetFamily(head.family).extra) {
    case HeadExtra::kNone:
      return;
    case HeadExtra::kAngle:
      batch.extra_values = 1;
      batch.rotated = {1, params.angle_range == AngleRange::kLe90 ? 1 : 0,
                       MakeRotatedRule(params.rotated_nms, params.iou_threshold), groups.rotated};
      return;
    case HeadExtra::kKeypoints:
      batch.extra_values = 3 * static_cast<uint32_t>(head.num_keypoints);
      batch.keypoints = {MakeKeypointRule(head), static_cast<uint32_t>(head.num_keypoints),
                         static_cast<uint32_t>(head.keypoint_values)};
      return;
    case HeadExtra::kMaskCoefficients:
      batch.keypoints.count = static_cast<uint32_t>(head.mask_coefficients);
      batch.keypoints.values = 1;
      return SetMasks(params, outputs, runs, launch);
    case HeadExtra::kMaskLogits:
      return SetMasks(params, outputs, runs, launch);
  }
}

}  // namespace

void CheckDetectionInputs(const PostprocessParams& params, std::span<const PostprocessInput> inputs,
                          int device_id) {
  for (const PostprocessInput& input : inputs) {
    if (input.status != 0) continue;
    CheckHead(params.head, input.head);
    CheckDevice(params.head, input.head, device_id);
    // A GPU's error for this would end all its work in the process.
    if (input.geometry_device == Device::kCuda &&
        reinterpret_cast<uintptr_t>(input.geometry) % alignof(float) != 0) {
      FailArgument("geometry does not begin at a multiple of its element's size");
    }
  }
}

size_t StagedBytes(std::span<const PostprocessInput> inputs) {
  size_t bytes = 0;
  for (const PostprocessInput& input : inputs) {
    ForEachStaged(input, [&](const ConstTensorView& view) { bytes += Aligned(view.size_bytes()); });
  }
  return bytes;
}

void StageHeads(std::span<const PostprocessInput> inputs, uint8_t* staged) {
  for (const PostprocessInput& input : inputs) {
    ForEachStaged(input, [&](const ConstTensorView& view) {
      if (view.data != nullptr) std::memcpy(staged, view.data, view.size_bytes());
      staged += Aligned(view.size_bytes());
    });
  }
}

DetectionGroups PlanGroups(const PostprocessParams& params,
                           std::span<const PostprocessInput> inputs) {
  uint64_t candidates = 1;
  for (const PostprocessInput& input : inputs) {
    if (input.status != 0) continue;
    const uint64_t rows = CountRows(params.head.family, input.head);
    candidates = std::max(candidates, MostCandidates(params.head, rows));
  }
  DetectionGroups groups = {};
  groups.key_capacity = static_cast<uint32_t>(candidates);
  const HeadFamilyInfo& family = GetFamily(params.head.family);
  const bool has_angles = family.extra == HeadExtra::kAngle;
  // The kept boxes suppress others, and keypoints and masks are made of them.
  if (family.needs_nms || (family.extra != HeadExtra::kNone && !has_angles)) {
    const int rows = std::min(params.max_detections, params.head.max_candidates);
    groups.kept_capacity = std::min(groups.key_capacity, static_cast<uint32_t>(rows));
  }
  groups.kept_bytes = kKeptBytes * groups.kept_capacity;
  if (family.needs_nms && has_angles) {
    const auto most = static_cast<uint32_t>(params.head.max_candidates);
    groups.rotated = SizeRotatedScratch(params.rotated_nms, std::min(groups.key_capacity, most),
                                        groups.kept_capacity);
    groups.kept_bytes = RotatedScratchBytes(params.rotated_nms, groups.rotated);
  }
  const size_t key_bytes = sizeof(uint64_t) * groups.key_capacity;
  const size_t anchor_bytes = sizeof(uint32_t) * groups.kept_capacity;
  const size_t image_bytes =
      sizeof(CandidateState) + key_bytes + groups.kept_bytes + anchor_bytes + sizeof(uint32_t);
  const size_t limit_bytes = Aligned(sizeof(float) * static_cast<size_t>(params.head.num_classes));
  const size_t fit =
      std::clamp<size_t>((kScratchBytes - limit_bytes - 5 * kAlignment) / image_bytes, 1,
                         static_cast<size_t>(kMaxBatchImages));
  groups.images = std::min(fit, std::max<size_t>(inputs.size(), 1));
  groups.keys_at = Aligned(sizeof(CandidateState) * groups.images);
  groups.kept_at = groups.keys_at + Aligned(key_bytes * groups.images);
  groups.anchors_at = groups.kept_at + Aligned(groups.kept_bytes * groups.images);
  groups.rows_at = groups.anchors_at + Aligned(anchor_bytes * groups.images);
  groups.limits_at = groups.rows_at + Aligned(sizeof(uint32_t) * groups.images);
  groups.bytes = groups.limits_at + limit_bytes;
  return groups;
}

DetectionLaunch MakeDetectionLaunch(const PostprocessParams& params, const DetectionGroups& groups,
                                    std::span<const PostprocessInput> inputs,
                                    std::span<const PostprocessOutput> outputs,
                                    DetectionMemory& memory) {
  const bool classifies = IsClassification(params.head.family);
  DetectionLaunch launch = {};
  HeadBatch& heads = launch.heads;
  heads.rule = MakeHeadRule(params.head);
  if (memory.class_limits != nullptr) {
    launch.class_limits = memory.class_limits;
    heads.rule.class_limits = reinterpret_cast<float*>(memory.scratch + groups.limits_at);
  }
  heads.count = static_cast<int32_t>(inputs.size());
  heads.key_capacity = groups.key_capacity;
  heads.states = reinterpret_cast<CandidateState*>(memory.scratch);
  heads.keys = reinterpret_cast<uint64_t*>(memory.scratch + groups.keys_at);
  DetectionBatch& batch = launch.detections;
  batch.needs_nms = NeedsNms(params.head.family) ? 1 : 0;
  batch.class_agnostic = params.class_agnostic ? 1 : 0;
  batch.iou_limit = GreatestFloatAtMost(params.iou_threshold);
  // A classifier's classes are all candidates, and none is left out.
  batch.max_candidates =
      classifies ? groups.key_capacity : static_cast<uint32_t>(params.head.max_candidates);
  batch.max_rows =
      static_cast<uint32_t>(classifies ? params.head.ResolvedTopK() : params.max_detections);
  batch.kept_capacity = groups.kept_capacity;
  batch.kept = memory.scratch + groups.kept_at;
  batch.kept_anchors = reinterpret_cast<uint32_t*>(memory.scratch + groups.anchors_at);
  batch.kept_rows = reinterpret_cast<uint32_t*>(memory.scratch + groups.rows_at);
  batch.kept_bytes = groups.kept_bytes;
  SetExtra(params, groups, outputs, memory.runs, launch);
  batch.records = memory.records;
  for (size_t i = 0; i < inputs.size(); ++i) {
    heads.images[i] = MakeHeadImage(params.head, inputs[i], memory.staged);
    RunLengthText* texts = memory.runs.texts;
    if (texts != nullptr) texts += i * batch.max_rows;
    batch.images[i] = MakeDetectionImage(params, inputs[i], outputs[i], texts);
    if (classifies) {
      heads.images[i].class_probabilities =
          static_cast<float*>(batch.images[i].outputs[kProbabilitiesOutput]);
    }
  }
  if (memory.records != nullptr) memory.records += inputs.size();
  return launch;
}

}  // namespace endcap
