#pragma once

#include <cstddef>
#include <cstdint>

namespace endcap {

struct KernelTable;  // cuda_library/kernel_table.h

// The table of functions between the core and libendcap_cuda.so. Both are built from one source
// tree; `version` and `layout` detect files of different builds.
inline constexpr uint32_t kCudaApiVersion = 1;
inline constexpr char kCudaApiSymbol[] = "EndcapCudaApi";

// The capture id of a stream that cannot be used because of a capture; see CaptureId in streams.h.
inline constexpr uint64_t kUnusableByCapture = UINT64_MAX;

enum class CudaMemoryKind : int32_t { kHost, kPinned, kDevice };

struct CudaMemoryPlace {
  CudaMemoryKind kind = CudaMemoryKind::kHost;
  int32_t device = -1;  // -1: memory that CUDA does not know
};

struct CudaDeviceFacts {
  char name[256];
  int32_t compute_major;
  int32_t compute_minor;
  int32_t multiprocessors;
  int64_t memory_bytes;
};

// The CUDA runtime as the core uses it, and a pointer to the stages' kernels.
//
// Every function that returns int32_t returns an ErrorCode, 0 for success; `last_message` returns
// the message of the thread's last error. No exception leaves the library.
// `device` is the calling thread's device during the call; the previous one is restored. A graph
// capture of another thread is not invalidated. Streams and events are cudaStream_t and
// cudaEvent_t. Thread-safe.
struct CudaApi {
  uint32_t version;
  uint32_t layout;  // GetExpectedLayout of the build
  // The value of CMAKE_CUDA_ARCHITECTURES: "75-real 90-real 90-virtual".
  const char* architectures;
  const KernelTable* kernels;
  const char* (*last_message)();
  // Whether an unrecoverable CUDA error has occurred: every later call of this process fails.
  bool (*needs_restart)();

  int32_t (*versions)(int32_t* driver, int32_t* runtime);
  int32_t (*device_count)(int32_t* count);
  int32_t (*describe_device)(int32_t device, CudaDeviceFacts* facts);

  int32_t (*allocate)(int32_t device, size_t bytes, void* stream, void** memory);  // stream-ordered
  int32_t (*release)(int32_t device, void* memory, void* stream);
  // Frees memory after the work that is now enqueued on these streams and, with `after_all`, on all
  // streams of the device. No stream waits for another. Sets `released` to false and does nothing
  // during a capture that forbids it; `after_all` then invalidates the captures of the device.
  int32_t (*release_after)(int32_t device, void* memory, void* const* streams, int32_t stream_count,
                           bool after_all, bool* released);
  int32_t (*allocate_pinned)(int32_t device, size_t bytes, void** memory);
  int32_t (*release_pinned)(int32_t device, void* memory);
  int32_t (*copy)(int32_t device, void* to, const void* from, size_t bytes, void* stream);
  int32_t (*fill)(int32_t device, void* to, int32_t byte, size_t bytes, void* stream);
  int32_t (*locate)(const void* memory, CudaMemoryPlace* place);

  int32_t (*create_stream)(int32_t device, void** stream);  // does not wait for the default stream
  int32_t (*destroy_stream)(int32_t device, void* stream);
  int32_t (*wait_stream)(int32_t device, void* stream);   // the host waits
  int32_t (*check_stream)(int32_t device, void* stream);  // errors of earlier work; does not wait
  // The id of the graph capture that the stream takes part in; 0: none.
  int32_t (*capture_id)(int32_t device, void* stream, uint64_t* id);
  int32_t (*create_event)(int32_t device, void** event);
  int32_t (*destroy_event)(int32_t device, void* event);
  int32_t (*record_event)(int32_t device, void* event, void* stream);
  int32_t (*wait_event)(int32_t device, void* event);                       // the host waits
  int32_t (*order_after_event)(int32_t device, void* stream, void* event);  // the stream waits
};

using CudaApiFunction = const CudaApi* (*)();

}  // namespace endcap
