#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "endcap/preprocess.h"
#include "triton_util/tensor_contract.h"

namespace endcap::triton {

inline constexpr std::string_view kEncoded = "encoded";
inline constexpr std::string_view kRois = "rois";

// What the parameters make of the model's tensors: `encoded`, one file as a string or as bytes, and
// the outputs of PreprocessOutputs.
std::vector<TensorContract> PreprocessInputContracts();
std::vector<TensorContract> PreprocessOutputContracts(const PreprocessParams& params);

// The same for a model with regions of interest: `rois` float32 [K, 4] besides, and a row of every
// output for each region.
std::vector<TensorContract> RoisInputContracts();
std::vector<TensorContract> RoisOutputContracts(const PreprocessParams& params);
std::vector<TensorSpec> PreprocessRoisOutputs(const PreprocessParams& params, int64_t roi_count);

}  // namespace endcap::triton
