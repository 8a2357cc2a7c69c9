#pragma once

#include <string_view>
#include <vector>

#include "endcap/preprocess.h"
#include "triton_util/tensor_contract.h"

namespace endcap::triton {

inline constexpr std::string_view kEncoded = "encoded";

// What the parameters make of the model's tensors: `encoded`, one file as a string or as bytes, and
// the outputs of PreprocessOutputs.
std::vector<TensorContract> PreprocessInputContracts();
std::vector<TensorContract> PreprocessOutputContracts(const PreprocessParams& params);

}  // namespace endcap::triton
