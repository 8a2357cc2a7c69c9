#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

struct CUstream_st;

// nvJPEG's interface as far as endcap uses it, declared here because the library is opened at run
// time and its header belongs to NVIDIA's packages. Names, values and layouts are facts of nvJPEG
// 12 and 13 (nvjpeg.h): functions are called `nvjpeg` and the member's name.

namespace endcap::nvjpeg {

enum Status : int {
  kSuccess = 0,
  kNotInitialized = 1,
  kInvalidParameter = 2,
  kBadJpeg = 3,
  kJpegNotSupported = 4,
  kAllocatorFailure = 5,
  kExecutionFailed = 6,
  kArchMismatch = 7,
  kInternalError = 8,
  kImplementationNotSupported = 9,
  kIncompleteBitstream = 10,
};

enum OutputFormat : int { kOutputYuv = 1, kOutputY = 2 };

enum Backend : int {
  kBackendHardware = 3,  // the JPEG engine of data center GPUs
};

inline constexpr int kMaxComponents = 4;

struct Image {
  unsigned char* channel[kMaxComponents];
  size_t pitch[kMaxComponents];
};

// Opaque objects, bound to the device that was current when they were made. Several threads may
// use a library handle at a time; a stream and a state belong to one thread at a time (nvJPEG's
// documentation, "Thread Safety").
using Handle = struct HandleTag*;
using JpegState = struct JpegStateTag*;
using JpegStream = struct JpegStreamTag*;
using DecodeParams = struct DecodeParamsTag*;
using CudaStream = CUstream_st*;

struct Api {
  Status (*GetProperty)(int property, int* value);  // 0: major, 1: minor, 2: patch
  // Allocators: null for CUDA's own.
  Status (*CreateEx)(Backend, void* device_allocator, void* pinned_allocator, unsigned flags,
                     Handle*);
  Status (*Destroy)(Handle);

  Status (*JpegStreamCreate)(Handle, JpegStream*);
  Status (*JpegStreamDestroy)(JpegStream);
  Status (*JpegStreamParseHeader)(Handle, const unsigned char* bytes, size_t size, JpegStream);
  Status (*JpegStreamGetComponentsNum)(JpegStream, unsigned* count);
  Status (*JpegStreamGetComponentDimensions)(JpegStream, unsigned component, unsigned* width,
                                             unsigned* height);

  Status (*DecodeParamsCreate)(Handle, DecodeParams*);
  Status (*DecodeParamsDestroy)(DecodeParams);
  Status (*DecodeParamsSetOutputFormat)(DecodeParams, OutputFormat);

  // A batch on the handle's backend; `supported` is 0 where it is.
  Status (*JpegStateCreate)(Handle, JpegState*);
  Status (*JpegStateDestroy)(JpegState);
  Status (*DecodeBatchedSupportedEx)(Handle, JpegStream, DecodeParams, int* supported);
  Status (*DecodeBatchedInitialize)(Handle, JpegState, int batch_size, int max_cpu_threads,
                                    OutputFormat);
  Status (*DecodeBatched)(Handle, JpegState, const unsigned char* const* bytes, const size_t* sizes,
                          Image* destinations, CudaStream);
};

}  // namespace endcap::nvjpeg

namespace endcap {

// nvJPEG as it was found and opened at run time; it stays open until the process ends.
struct NvjpegLibrary {
  nvjpeg::Api api{};
  std::string path;     // of the file that was loaded
  std::string version;  // "13.0.1"
};

// The places where nvJPEG is looked for, in this order, given the file that holds the calling code.
// For nvJPEG of CUDA 13, then for that of CUDA 12: beside the file; in the pip package of the
// environment whose site-packages holds that file's folder (nvidia-nvjpeg, nvidia-nvjpeg-cu12); the
// loader's own paths.
std::vector<std::string> NvjpegPlaces(std::string_view holder);

// Opens one file, or a name that the loader looks up. Throws kCuda when it cannot be opened or does
// not have a function that is needed.
NvjpegLibrary OpenNvjpegLibrary(const std::string& place);

// Opens the first of `places` that can be opened. Throws kCuda with the reason and what to do.
NvjpegLibrary OpenNvjpegLibrary(const std::vector<std::string>& places);

// The library of this process: the file that ENDCAP_NVJPEG_LIBRARY names and no other where that is
// set, else that of NvjpegPlaces. Throws as OpenNvjpegLibrary. Looked for once.
const NvjpegLibrary& TheNvjpegLibrary();

}  // namespace endcap
