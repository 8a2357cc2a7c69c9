#include "endcap/postprocess.h"

namespace endcap {
namespace {

std::vector<TensorSpec> ClassOutputs(const HeadParams& head) {
  const int64_t k = head.ResolvedTopK();
  return {{"class_scores", DType::kFloat32, {k}, 1},
          {"class_ids", DType::kInt32, {k}, 1},
          {"class_probabilities", DType::kFloat32, {head.num_classes}, 1}};
}

// Of every image, where that is not the source's.
MaskSize FixedMaskSize(const PostprocessParams& params) {
  const HeadParams& head = params.head;
  if (params.mask_resolution == MaskResolution::kInput) {
    return {head.input_height, head.input_width};
  }
  return {head.prototype_height, head.prototype_width};
}

std::vector<TensorSpec> DetectionOutputs(const PostprocessParams& params) {
  const int64_t k = params.max_detections;
  std::vector<TensorSpec> specs = {{"num_detections", DType::kInt32, {1}, 1},
                                   {"detection_boxes", DType::kFloat32, {k, 4}, 2},
                                   {"detection_scores", DType::kFloat32, {k}, 1},
                                   {"detection_classes", DType::kInt32, {k}, 1},
                                   {"detection_indices", DType::kInt32, {k}, 1}};
  const HeadParams& head = params.head;
  if (head.family == HeadFamily::kYolov8Pose) {
    specs.push_back({"detection_keypoints", DType::kFloat32, {k, head.num_keypoints, 3}, 3});
  } else if (head.family == HeadFamily::kYolov8Obb) {
    specs.push_back({"detection_angles", DType::kFloat32, {k}, 1});
  } else if (head.family == HeadFamily::kYolov8Seg) {
    specs.push_back({"mask_size", DType::kInt32, {2}, 1});
    if (params.mask_resolution != MaskResolution::kSource) {
      const MaskSize size = FixedMaskSize(params);
      const auto row_bytes = static_cast<int64_t>(size.packed_row_bytes());
      specs.push_back({"detection_masks", DType::kUint8, {k, size.height, row_bytes}, 3});
    }
  }
  return specs;
}

}  // namespace

bool GivesRle(const PostprocessParams& params) noexcept {
  return params.head.family == HeadFamily::kYolov8Seg;
}

std::vector<TensorSpec> PostprocessOutputs(const PostprocessParams& params) {
  std::vector<TensorSpec> specs = params.head.family == HeadFamily::kClassification
                                      ? ClassOutputs(params.head)
                                      : DetectionOutputs(params);
  specs.push_back({"status", DType::kInt32, {1}, 1});
  return specs;
}

}  // namespace endcap
