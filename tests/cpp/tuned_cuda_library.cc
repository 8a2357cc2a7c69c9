#include <dlfcn.h>

#include <cstdint>

#include "cuda/cuda_api.h"
#include "cuda_library/kernel_table.h"
#include "preprocess/cuda/fused_launch.h"

// The emulated library as a build with other constants: its table names smaller ones, and a launch
// that was not planned with them is an error.

namespace {

constexpr endcap::FusedTuning kTuning = {.max_threads = 64,
                                         .max_staged_rows = 1,
                                         .max_staged_bytes = 4096,
                                         .max_block_rows = 8,
                                         .many_blocks = 2};

const endcap::CudaApi* emulated = nullptr;
endcap::CudaApi table;
endcap::KernelTable kernels;
thread_local bool refused = false;

int32_t Preprocess(int32_t device, const endcap::FusedLaunch* launch, void* stream) {
  refused = launch->threads != kTuning.max_threads ||
            launch->block_rows != kTuning.max_block_rows ||
            launch->staged_bytes > kTuning.max_staged_bytes || launch->staged_bytes == 0;
  return refused ? 5 : emulated->kernels->preprocess(device, launch, stream);
}

const char* LastMessage() {
  return refused ? "planned with the constants of another build" : emulated->last_message();
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const endcap::CudaApi* EndcapCudaApi() {
  if (emulated == nullptr) {
    void* library = dlopen(EMULATED_CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return nullptr;
    const auto get =
        reinterpret_cast<endcap::CudaApiFunction>(dlsym(library, endcap::kCudaApiSymbol));
    if (get == nullptr) return nullptr;
    emulated = get();
    table = *emulated;
    kernels = *emulated->kernels;
    kernels.fused_tuning = &kTuning;
    kernels.preprocess = Preprocess;
    table.kernels = &kernels;
    table.last_message = LastMessage;
  }
  return &table;
}
