#pragma once

#include <string_view>

#include "bls/cascade_job.h"

namespace endcap::triton {

// An output of the model that detects, for one image. Throws InnerError where that model has none.
const ItemTensor& FindDetections(const CascadeImage& image, std::string_view output,
                                 const CascadeSettings& settings);

}  // namespace endcap::triton
