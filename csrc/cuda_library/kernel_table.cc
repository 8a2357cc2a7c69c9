#include "cuda_library/kernel_table.h"

#include "cuda_library/launch_layout.h"
#include "cuda_runtime/library_loader.h"
#include "cuda_runtime/runtime.h"
#include "decode/planes.h"
#include "endcap/cuda.h"

namespace endcap {

uint32_t GetExpectedLayout() noexcept { return ComputeLaunchLayout(); }

const KernelTable& Kernels() { return *Cuda().kernels; }

const KernelTable& KernelsInUse() noexcept { return *CudaInUse().kernels; }

NvjpegState DescribeNvjpeg(int device_id) {
  NvjpegState state;
  try {
    RequireCuda(device_id);
    NvjpegFacts facts;
    const int32_t code = Kernels().nvjpeg_describe(device_id, &facts);
    state.library_path = facts.library_path;
    state.version = facts.version;
    CheckCuda(code);
    state.available = true;
  } catch (const Error& error) {
    state.reason = error.what();
  }
  return state;
}

}  // namespace endcap
