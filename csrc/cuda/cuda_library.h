#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cuda/cuda_api.h"
#include "endcap/cuda.h"

namespace endcap {

inline constexpr char kCudaLibraryName[] = "libendcap_cuda.so";

// Where libendcap_cuda.so is looked for, given the file that holds the calling code: beside it, and
// two folders up, which is the Python package for a backend in `endcap/backends/NAME/`.
std::vector<std::string> CudaLibraryPlaces(std::string_view holder);

// Whether code for `architectures` (as CudaApi says it) runs on a device: machine code of the same
// major and no later minor version, or PTX of no later version.
bool CoversDevice(std::string_view architectures, int compute_major, int compute_minor);

// What came of opening the library.
struct CudaLibrary {
  const CudaApi* api = nullptr;  // null where `state` says that CUDA is not available
  CudaState state;
};

// Opens the file `path` and asks it for devices. The file stays open for as long as the process
// lives. Every failure is an error message in `state`.
CudaLibrary OpenCudaLibrary(const std::string& path);

// The one of this process: the file that ENDCAP_CUDA_LIBRARY names, else the first of
// CudaLibraryPlaces that is there.
const CudaLibrary& TheCudaLibrary() noexcept;

}  // namespace endcap
