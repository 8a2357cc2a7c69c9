#pragma once

#include "triton_util/handles.h"

namespace endcap::triton {

// Gives other models the memory for their responses. The userp of each request that uses it is a
// ResponsePlaces, which says where; where a GPU's memory cannot be had, host memory is given.
// Thread-safe. Throws ApiError.
AllocatorHandle NewResponseAllocator();

}  // namespace endcap::triton
