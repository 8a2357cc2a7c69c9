#pragma once

#include <cstdint>

// The kernels of all stages as the core calls them. This header declares the stages' types without
// including their headers, so that each stage can include it.

namespace endcap {

struct FusedLaunch;        // preprocess/cuda/fused_launch.h
struct DetectionLaunch;    // postprocess/detection_launch.h
struct NmsLaunch;          // nms/cuda/launch.h
struct RotatedNmsLaunch;   // nms/cuda/launch.h
struct NvjpegDecodeBatch;  // decode/planes.h
struct NvjpegFacts;        // decode/planes.h
struct NvjpegImage;        // decode/planes.h

// Functions of libendcap_cuda.so, with the conventions of CudaApi: the result is an ErrorCode, 0
// for success. Nothing waits for the stream unless the stage's header documents it.
struct KernelTable {
  int32_t (*preprocess)(int32_t device, const FusedLaunch* launch, void* stream);
  int32_t (*detect)(int32_t device, const DetectionLaunch* launch, void* stream);
  int32_t (*nms)(int32_t device, const NmsLaunch* launch, void* stream);
  int32_t (*nms_rotated)(int32_t device, const RotatedNmsLaunch* launch, void* stream);

  // See decode/cuda/nvjpeg_decoder.h for the order in which these may be called.
  int32_t (*nvjpeg_describe)(int32_t device, NvjpegFacts* facts);
  int32_t (*nvjpeg_open)(int32_t device, void** decoder);
  int32_t (*nvjpeg_close)(int32_t device, void* decoder);
  int32_t (*nvjpeg_parse)(int32_t device, void* decoder, NvjpegImage* image);
  int32_t (*nvjpeg_decode)(int32_t device, void* decoder, NvjpegDecodeBatch* batch, void* stream);
};

// The table of the library that this process has opened. Throws kCuda where CUDA cannot be used.
const KernelTable& Kernels();

// The same without a check, for destructors of objects that were made through the table.
const KernelTable& KernelsInUse() noexcept;

}  // namespace endcap
