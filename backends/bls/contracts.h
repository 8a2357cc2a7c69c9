#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "endcap/tensor_view.h"
#include "triton_util/tensor_contract.h"

namespace endcap::triton {

inline constexpr std::string_view kEncoded = "encoded";

// What the model that detects answers and a cascade passes on; shapes of one image, -1 for the
// number of rows.
inline constexpr std::array<TensorSpec, 6> kDetectionOutputs{{
    {"num_detections", DType::kInt32, {1}, 1},
    {"detection_boxes", DType::kFloat32, {-1, 4}, 2},
    {"detection_scores", DType::kFloat32, {-1}, 1},
    {"detection_classes", DType::kInt32, {-1}, 1},
    {"detection_indices", DType::kInt32, {-1}, 1},
    {"status", DType::kInt32, {1}, 1},
}};

inline constexpr std::string_view kClassIds = "class_ids";
inline constexpr std::string_view kClassScores = "class_scores";
inline constexpr std::string_view kClassLabels = "class_labels";

std::vector<TensorContract> CascadeInputContracts();
std::vector<TensorContract> CascadeOutputContracts();

}  // namespace endcap::triton
