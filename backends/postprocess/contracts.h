#pragma once

#include <string_view>
#include <vector>

#include "endcap/geometry.h"
#include "endcap/postprocess.h"
#include "triton_util/tensor_contract.h"

namespace endcap::triton {

// The inputs beside the head, for one image.
inline constexpr TensorSpec kGeometryInput{"geometry", DType::kFloat32, {Geometry::kSize}, 1};
inline constexpr TensorSpec kStatusInput{"status", DType::kInt32, {1}, 1};

inline constexpr std::string_view kClassScores = "class_scores";
inline constexpr std::string_view kClassIds = "class_ids";
inline constexpr std::string_view kClassProbabilities = "class_probabilities";
inline constexpr std::string_view kClassLabels = "class_labels";
inline constexpr std::string_view kClassPaths = "class_paths";
inline constexpr std::string_view kDetectionRle = "detection_rle";

// What the parameters make of the model's tensors: the head's tensors (float ones in FP32 or FP16),
// and geometry and status, which a request may leave out; for classification also class_labels
// (and class_paths, where labels are paths), for heads with masks also detection_rle.
std::vector<TensorContract> PostprocessInputContracts(const PostprocessParams& params);
std::vector<TensorContract> PostprocessOutputContracts(const PostprocessParams& params,
                                                       bool labels_are_paths);

}  // namespace endcap::triton
