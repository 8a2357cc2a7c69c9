#pragma once

#include "bls/cascade_job.h"

namespace endcap::triton {

// Reads a request of the job, and adds its images to the job's. Throws kInvalidArgument for an
// input that holds something else than one file for each image; ApiError.
void ReadRequest(CascadeJob& job, size_t index, const InputReading& reading);

}  // namespace endcap::triton
