#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace endcap {

// One GPU that this process can use.
struct CudaDevice {
  int id = 0;
  std::string name;
  int compute_major = 0;
  int compute_minor = 0;
  int multiprocessors = 0;
  int64_t memory_bytes = 0;
  bool covered = false;  // the library has code for it
};

// The state of CUDA on this machine, for diagnostics.
struct CudaState {
  bool available = false;     // the library is loaded, its driver works, there is a covered device
  std::string reason;         // why not, and what to do; empty when available
  std::string library_path;   // libendcap_cuda.so as found; empty if there is none
  int driver_version = 0;     // CUDA version that the driver knows, 1000 * major + 10 * minor
  int runtime_version = 0;    // CUDA version that the library was built with
  std::string architectures;  // of its kernels: "75-real 90-real 90-virtual"
  std::vector<CudaDevice> devices;
};

// Loads the library and lists the devices once per process. Thread-safe.
const CudaState& DescribeCuda() noexcept;

// The state of nvJPEG and of the JPEG engine of one GPU, for diagnostics.
struct NvjpegState {
  bool available = false;    // `jpeg_decoder: nvjpeg` works
  std::string reason;        // why not; empty when available
  std::string library_path;  // of nvJPEG as it was loaded; empty where there is none
  std::string version;       // of nvJPEG, "13.0.1"; empty where it is unknown
};

// Creates a handle of nvJPEG on the device and destroys it. Failures are reported in `reason`, not
// thrown. Thread-safe.
NvjpegState DescribeNvjpeg(int device_id);

// Throws kCuda, with the reason and what to do, when device `device_id` cannot be used.
void RequireCuda(int device_id);

// Returns the device whose memory an address belongs to; -1 for other memory, or without a GPU.
int FindCudaDevice(const void* memory) noexcept;

// The device and stream of GPU work. Functions that take a target enqueue work on its stream and do
// not synchronise, unless stated otherwise.
struct CudaTarget {
  int device_id = 0;
  void* stream = nullptr;  // a cudaStream_t of that device; null: the legacy default stream
};

// Returns a new stream of the device that is not synchronised with the legacy default stream. It is
// destroyed with its last owner, after its work is done. Throws kCuda.
std::shared_ptr<void> NewCudaStream(int device_id);

// Allocates stream-ordered device memory from the device's pool; 256-byte aligned. Freed on the
// same stream with its last owner; the stream must exist until then. If the stream is then being
// captured into a graph that the memory is not part of, it is freed some time after the capture,
// provided that `stream_owner` keeps the stream alive; without an owner it is not freed. Throws
// kOutOfMemory, kCuda.
std::shared_ptr<void> AllocateCuda(size_t bytes, const CudaTarget& target,
                                   std::shared_ptr<void> stream_owner = nullptr);

// Allocates pinned host memory, to and from which a GPU copies asynchronously. It is reused by
// later calls after its last owner is gone: no work on a stream may still use it then. Throws
// kOutOfMemory, kCuda.
std::shared_ptr<uint8_t> AllocatePinnedCuda(size_t bytes, int device_id);

// Lets another stream of the device use memory of AllocateCuda: the memory is then also freed after
// the work that this stream has when the last owner releases it. `stream_owner` keeps the stream
// alive until then; null: the stream's lifetime is unknown, and the memory is freed after the work
// that all streams of the device have then (such a release during a graph capture invalidates the
// capture). The legacy default stream needs no owner. No effect for other memory. Thread-safe.
void AddCudaConsumer(const std::shared_ptr<void>& memory, void* stream,
                     std::shared_ptr<void> stream_owner);

// Whether an unrecoverable CUDA error has occurred in this process, such as an illegal access:
// every later CUDA call fails until the process is restarted.
bool CudaNeedsRestart() noexcept;

// Copies between host and device memory, in either direction, or within the device. With host
// memory that is not pinned the call waits until the copy is done. Throws kCuda.
void CopyCuda(void* to, const void* from, size_t bytes, const CudaTarget& target);

// Waits until everything on the stream is done. Throws kCuda, also for errors of earlier work, and
// kUnsupported for a stream that captures a graph.
void SynchronizeCuda(const CudaTarget& target);

// Throws kCuda for errors of earlier work on the stream that have been reported so far; does not
// wait.
void CheckCudaStream(const CudaTarget& target);

// Makes work that is enqueued on `target` from now on wait for the work that is now on `before` (a
// stream of the same device); the host does not wait. Throws kUnsupported if one of the two
// captures a graph that the other does not take part in: the dependency would change or invalidate
// the capture.
void OrderCudaAfter(const CudaTarget& target, void* before);

}  // namespace endcap
