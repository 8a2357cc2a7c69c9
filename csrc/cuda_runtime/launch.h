#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <string_view>
#include <tuple>

#include "common/fail.h"

// The only way kernels are launched and CUDA functions are checked inside libendcap_cuda.so. The
// kernels' files need nothing else of nvcc's own syntax, so that tests can build them for the host
// (tests/cuda_emulation).

namespace endcap {

// Whether the error ends the process's use of CUDA: every later call returns it, too.
constexpr bool IsUnrecoverable(cudaError_t error) {
  switch (error) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorMpsClientTerminated:
    case cudaErrorExternalDevice:
      return true;
    default:
      return false;
  }
}

// Whether Check has seen an unrecoverable error.
inline std::atomic<bool> cuda_needs_restart = false;

// Throws for anything but cudaSuccess: kOutOfMemory for a failed allocation, else kCuda.
inline void Check(cudaError_t error, std::string_view call) {
  if (error == cudaSuccess) return;
  (void)cudaGetLastError();  // an error that is not sticky ends here
  const bool ends = IsUnrecoverable(error);
  if (ends) cuda_needs_restart = true;
  const ErrorCode code =
      error == cudaErrorMemoryAllocation ? ErrorCode::kOutOfMemory : ErrorCode::kCuda;
  Fail(code, call, " failed: ", cudaGetErrorString(error), " (", cudaGetErrorName(error), ")",
       ends ? "; this process can no longer use CUDA: restart it" : "");
}

// A pointer to global memory, where the compiler cannot see that it is one.
template <typename T>
__device__ T* AssumeGlobal(T* pointer) {
#if defined(__CUDA_ARCH__)
  __builtin_assume(__isGlobal(pointer));
#endif
  return pointer;
}

}  // namespace endcap

#if defined(ENDCAP_CUDA_EMULATED)

#include "cuda_emulation/launch.h"

#else

// Dynamic shared memory under a name, 16-byte aligned. In a kernel's body.
// NOLINTNEXTLINE(bugprone-macro-parentheses): `name` is declared here, not an expression
#define ENDCAP_DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]

namespace endcap {

// Launches `kernel` on `stream`. shared_bytes: dynamic shared memory; more than 48 KiB is asked for
// where needed. Throws kCuda when the launch is refused.
template <typename... Params, typename... Args>
void Launch(void (*kernel)(Params...), dim3 grid, dim3 block, size_t shared_bytes,
            cudaStream_t stream, const Args&... args) {
  if (shared_bytes > size_t{48} * 1024) {
    Check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared_bytes)),
          "cudaFuncSetAttribute");
  }
  std::tuple<Params...> values(static_cast<Params>(args)...);
  std::apply(
      [&](auto&... value) {
        void* pointers[] = {&value..., nullptr};
        Check(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block, pointers,
                               shared_bytes, stream),
              "a kernel launch");
      },
      values);
}

}  // namespace endcap

#endif
