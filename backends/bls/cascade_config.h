#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "bls/routes.h"
#include "endcap/tensor_view.h"
#include "triton_util/model_config.h"
#include "triton_util/tensor_contract.h"

namespace endcap::triton {

// The parameters of a cascade in config.pbtxt.
struct CascadeSettings {
  std::string detect_model = "detect";
  bls::Routes routes;
  double classify_threshold = 0.25;
  size_t classify_batch_size = 16;
  size_t max_in_flight = 16;  // images
};

// Throws kInvalidArgument with an error message for an unknown or impossible parameter.
CascadeSettings ReadSettings(ModelConfig& config);

inline constexpr std::string_view kEncoded = "encoded";

// The outputs of the detection model, which a cascade passes on; shapes of one image, -1 for the
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
