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

// What there is of CUDA on this machine, for people to read.
struct CudaState {
  bool available = false;     // the library is loaded, its driver works, there is a covered device
  std::string reason;         // why not, and what to do; empty when available
  std::string library_path;   // libendcap_cuda.so as it was found; empty where there is none
  int driver_version = 0;     // CUDA version that the driver knows, 1000 * major + 10 * minor
  int runtime_version = 0;    // CUDA version that the library was built with
  std::string architectures;  // what its kernels were compiled for: "75-real 90-real 90-virtual"
  std::vector<CudaDevice> devices;
};

// Looks for the library and the devices once per process. Never throws.
const CudaState& DescribeCuda() noexcept;

// nvJPEG and the JPEG engine of one GPU, for people to read.
struct NvjpegState {
  bool available = false;    // `jpeg_decoder: nvjpeg` works
  std::string reason;        // why not; empty when available
  std::string library_path;  // of nvJPEG as it was loaded; empty where there is none
  std::string version;       // of nvJPEG, "13.0.1"; empty where it is unknown
};

// Makes a handle of nvJPEG on the device and destroys it. What is missing is a reason, not an
// exception.
NvjpegState DescribeNvjpeg(int device_id);

// Throws kCuda, with the reason and what to do, when device `device_id` cannot be used.
void RequireCuda(int device_id);

// The GPU in whose memory an address is; -1 for memory that is in none, or where there is no GPU to
// ask.
int FindCudaDevice(const void* memory) noexcept;

// Where GPU work goes: everything that takes a target is enqueued on its stream and does not wait
// for it, unless it says so.
struct CudaTarget {
  int device_id = 0;
  void* stream = nullptr;  // a cudaStream_t of that device; null: the legacy default stream
};

// A stream of the device that does not wait for the legacy default stream. It is destroyed, its
// work done first, when the last owner lets go. Throws kCuda.
std::shared_ptr<void> NewCudaStream(int device_id);

// Device memory in the order of a stream, from the device's pool; 256-byte aligned. It is freed, in
// the order of the same stream, when the last owner releases it; the stream must live until then.
// During a capture of the stream that it is not part of, it is freed some time after the capture,
// if `stream_owner` keeps the stream; without one it is not. Throws kOutOfMemory, kCuda.
std::shared_ptr<void> AllocateCuda(size_t bytes, const CudaTarget& target,
                                   std::shared_ptr<void> stream_owner = nullptr);

// Pinned host memory, to and from which a GPU copies asynchronously. It is kept
// for later calls when the last owner releases it: nothing on a stream may still use it then.
// Throws kOutOfMemory, kCuda.
std::shared_ptr<uint8_t> AllocatePinnedCuda(size_t bytes, int device_id);

// Lets another stream of the device use memory of AllocateCuda: it is freed after the work, too,
// that the stream has when the last owner releases it. `stream_owner` keeps the stream until then;
// null: it is not known how long the stream lives, and the memory is freed after the work that all
// streams of the device have then (such a release during a graph capture invalidates the capture).
// The legacy default stream needs no owner. Other memory is left alone. Thread-safe.
void AddCudaConsumer(const std::shared_ptr<void>& memory, void* stream,
                     std::shared_ptr<void> stream_owner);

// Whether an unrecoverable CUDA error was seen in this process, such as an illegal access: every
// later CUDA call fails, until the process is restarted.
bool CudaNeedsRestart() noexcept;

// Copies between host and device memory, either way, or within the device. With host memory
// that is not pinned the call waits until the copy is done. Throws kCuda.
void CopyCuda(void* to, const void* from, size_t bytes, const CudaTarget& target);

// Waits until everything on the stream is done. Throws kCuda, also for errors of earlier work, and
// kUnsupported for a stream that captures a graph.
void SynchronizeCuda(const CudaTarget& target);

// Throws for errors of earlier work on the stream, as far as they are known; does not wait.
void CheckCudaStream(const CudaTarget& target);

// Makes what is enqueued on `target` from now on wait for what is on `before` (a stream of the same
// device) now; the host does not wait. Throws kUnsupported where one of the two captures a graph
// and the other does not take part: the order would change or invalidate the capture.
void OrderCudaAfter(const CudaTarget& target, void* before);

}  // namespace endcap
