#pragma once

#include <cstddef>
#include <string>

#include "bls/routes.h"
#include "triton_util/model_config.h"

namespace endcap::triton {

// The parameters of a cascade in config.pbtxt.
struct CascadeSettings {
  std::string detect_model = "detect";
  bls::Routes routes;
  double classify_threshold = 0.25;
  size_t classify_batch_size = 16;
  size_t max_in_flight = 16;  // images
};

// Throws kInvalidArgument with an error message for an unknown parameter or one that cannot be
// used.
CascadeSettings ReadSettings(ModelConfig& config);

}  // namespace endcap::triton
