#pragma once

#include <type_traits>

#include "cuda_emulation/fibers.h"
#include "cuda_emulation/runtime.h"

// The host's side of cuda_runtime/launch.h.

#define ENDCAP_DYNAMIC_SHARED(name) \
  unsigned char* const name = ::endcap::emulation::Current().dynamic_shared

namespace endcap {

template <typename... Params, typename... Args>
void Launch(void (*kernel)(Params...), dim3 grid, dim3 block, size_t shared_bytes,
            cudaStream_t stream, const Args&... args) {
  Check(emulation::CheckLaunch(grid, block, shared_bytes), "a kernel launch");
  emulation::Enqueue(stream, [=] {
    emulation::RunGrid(grid, block, shared_bytes,
                       [=] { kernel(static_cast<std::remove_cv_t<Params>>(args)...); });
  });
}

}  // namespace endcap
