#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cuda_runtime/cuda_api.h"
#include "endcap/cuda.h"

namespace endcap {

inline constexpr char kCudaLibraryName[] = "libendcap_cuda.so";

// The paths at which libendcap_cuda.so may lie, given the file that holds the calling code: beside
// that file, and two folders up, which is the Python package for a backend in
// `endcap/backends/NAME/`.
std::vector<std::string> ListCudaLibraryPaths(std::string_view holder);

// Whether code for `architectures` (see CudaApi) runs on a device: machine code of the same
// major and no later minor version, or PTX of no later version.
bool CoversDevice(std::string_view architectures, int compute_major, int compute_minor);

// The layout that a library of this build has. Defined in cuda_library/kernel_table.cc, because the
// layout includes the stages' launch structs.
uint32_t GetExpectedLayout() noexcept;

// An opened library, or the reason why there is none.
struct CudaLibrary {
  const CudaApi* api = nullptr;  // null where CUDA is not available
  CudaState state;
};

// Opens the file `path` and lists the devices. The file stays open until the process ends. Every
// failure is an error message in `state`.
CudaLibrary OpenCudaLibrary(const std::string& path);

// The library of this process: the file that ENDCAP_CUDA_LIBRARY names, else the first of
// ListCudaLibraryPaths that exists. Opened at the first call. Thread-safe.
const CudaLibrary& GetCudaLibrary() noexcept;

}  // namespace endcap
