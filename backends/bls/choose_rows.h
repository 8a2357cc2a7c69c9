#pragma once

#include <vector>

#include "bls/cascade_job.h"

namespace endcap::triton {

// Step 2: the rows of an image's detections to classify. Throws InnerError where the detections do
// not belong together.
std::vector<bls::Chosen> ChooseRows(const CascadeImage& image, const CascadeSettings& settings);

}  // namespace endcap::triton
