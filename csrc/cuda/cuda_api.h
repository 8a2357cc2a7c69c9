#pragma once

#include <cstddef>
#include <cstdint>

namespace endcap {

struct FusedLaunch;        // preprocess/cuda/fused_launch.h
struct FusedTuning;        // the same
struct DetectionLaunch;    // postprocess/detection_launch.h
struct NmsLaunch;          // nms/nms_launch.h
struct RotatedNmsLaunch;   // nms/rotated_nms_launch.h
struct NvjpegDecodeBatch;  // decode/nvjpeg_decoder.h
struct NvjpegFacts;
struct NvjpegImage;

// The table of functions between the core and libendcap_cuda.so. Both are built from one source
// tree; the version is there so that files of two builds are not mixed unnoticed.
inline constexpr uint32_t kCudaApiVersion = 1;
inline constexpr char kCudaApiSymbol[] = "EndcapCudaApi";

// The id of a capture that makes a stream unusable, see CaptureId of streams.h.
inline constexpr uint64_t kUnusableByCapture = UINT64_MAX;

enum class CudaMemoryKind : int32_t { kHost, kPinned, kDevice };

struct CudaDeviceFacts {
  char name[256];
  int32_t compute_major;
  int32_t compute_minor;
  int32_t multiprocessors;
  int64_t memory_bytes;
};

// Every function that returns int32_t returns an ErrorCode, 0 for success; after an error
// `last_message` of the same thread has the error message. No exception leaves the library.
// `device` is made the calling thread's device for the call, and the one before is restored; a
// graph that another thread captures is not disturbed. Streams and events are cudaStream_t and
// cudaEvent_t.
struct CudaApi {
  uint32_t version;
  uint32_t layout;  // LaunchLayout of cuda/launch_layout.h
  // What the kernels were compiled for, in CMake's words: "75-real 90-real 90-virtual".
  const char* architectures;
  const FusedTuning* fused_tuning;  // what `preprocess` was compiled with
  const char* (*last_message)();
  // Whether an unrecoverable CUDA error was seen: every later call of this process fails.
  bool (*needs_restart)();

  int32_t (*versions)(int32_t* driver, int32_t* runtime);
  int32_t (*device_count)(int32_t* count);
  int32_t (*describe_device)(int32_t device, CudaDeviceFacts* facts);

  int32_t (*allocate)(int32_t device, size_t bytes, void* stream, void** memory);  // stream order
  int32_t (*release)(int32_t device, void* memory, void* stream);
  // Frees memory once what these streams have now is done, and, with `after_all`, what all streams
  // of the device have. No stream waits for another. Sets `released` to false, and does nothing,
  // where a capture forbids it; `after_all` then invalidates the captures of the device.
  int32_t (*release_after)(int32_t device, void* memory, void* const* streams, int32_t stream_count,
                           bool after_all, bool* released);
  int32_t (*allocate_pinned)(int32_t device, size_t bytes, void** memory);
  int32_t (*release_pinned)(int32_t device, void* memory);
  int32_t (*copy)(int32_t device, void* to, const void* from, size_t bytes, void* stream);
  int32_t (*fill)(int32_t device, void* to, int32_t byte, size_t bytes, void* stream);
  int32_t (*locate)(const void* memory, CudaMemoryKind* kind, int32_t* device);

  int32_t (*create_stream)(int32_t device, void** stream);  // does not wait for the default stream
  int32_t (*destroy_stream)(int32_t device, void* stream);
  int32_t (*wait_stream)(int32_t device, void* stream);   // the host waits
  int32_t (*check_stream)(int32_t device, void* stream);  // errors of earlier work; does not wait
  // Of the capture that takes the stream's work into a graph; 0: none.
  int32_t (*capture_id)(int32_t device, void* stream, uint64_t* id);
  int32_t (*create_event)(int32_t device, void** event);
  int32_t (*destroy_event)(int32_t device, void* event);
  int32_t (*record_event)(int32_t device, void* event, void* stream);
  int32_t (*wait_event)(int32_t device, void* event);                       // the host waits
  int32_t (*order_after_event)(int32_t device, void* stream, void* event);  // the stream waits

  int32_t (*preprocess)(int32_t device, const FusedLaunch* launch, void* stream);
  int32_t (*detect)(int32_t device, const DetectionLaunch* launch, void* stream);
  int32_t (*nms)(int32_t device, const NmsLaunch* launch, void* stream);
  int32_t (*nms_rotated)(int32_t device, const RotatedNmsLaunch* launch, void* stream);

  // The functions of decode/nvjpeg_decoder.h, which says what each may be called with, and when.
  int32_t (*nvjpeg_describe)(int32_t device, NvjpegFacts* facts);
  int32_t (*nvjpeg_open)(int32_t device, void** decoder);
  int32_t (*nvjpeg_close)(int32_t device, void* decoder);
  int32_t (*nvjpeg_parse)(int32_t device, void* decoder, NvjpegImage* image);
  int32_t (*nvjpeg_decode)(int32_t device, void* decoder, NvjpegDecodeBatch* batch, void* stream);
};

using CudaApiFunction = const CudaApi* (*)();

}  // namespace endcap
