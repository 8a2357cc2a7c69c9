#pragma once

// Stands in for CUDA's header of that name when the project's .cu files are built for the host. Of
// the CUDA runtime's interface it declares what the project uses; names and values are CUDA's.

#include "cuda_emulation/kernel.h"
#include "cuda_emulation/runtime.h"
#include "cuda_emulation/vector_types.h"
