#include "endcap/postprocess.h"

namespace endcap {
namespace {

std::vector<TensorSpec> ClassOutputs(const HeadParams& head) {
  const int64_t k = head.ResolvedTopK();
  return {{"class_scores", DType::kFloat32, {k}, 1},
          {"class_ids", DType::kInt32, {k}, 1},
          {"class_probabilities", DType::kFloat32, {head.num_classes}, 1}};
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
  }
  return specs;
}

}  // namespace

std::vector<TensorSpec> PostprocessOutputs(const PostprocessParams& params) {
  std::vector<TensorSpec> specs = params.head.family == HeadFamily::kClassification
                                      ? ClassOutputs(params.head)
                                      : DetectionOutputs(params);
  specs.push_back({"status", DType::kInt32, {1}, 1});
  return specs;
}

}  // namespace endcap
