#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "cuda_runtime/cuda_api.h"

namespace endcap {

// Devices of libendcap_cuda.so: which there are, which one is current, and where memory lies.

// Makes `device` the calling thread's device, and lets the thread make any call while another
// thread captures a CUDA graph; restores what was before. Throws kCuda.
//
// The driver's context is restored: cudaSetDevice would initialise a device that the process never
// used, which takes hundreds of megabytes of its memory.
//
// In the default capture mode calls that might depend on the captured work (allocation of pinned
// memory, waiting, event queries) fail during a capture of mode cudaStreamCaptureModeGlobal,
// torch's, and invalidate it. The library's calls concern its own memory, streams and events, so
// that they are safe.
class DeviceGuard {
 public:
  explicit DeviceGuard(int32_t device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  void* before_ = nullptr;
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

// Finds where `memory` lies. Managed memory counts as device memory. Needs no current device and
// initialises none. Throws kCuda.
CudaMemoryPlace Locate(const void* memory);

// Records in `event` all work enqueued so far on all streams of the current device. Returns false
// if a stream of the device captures a graph; the driver invalidates that capture. Throws kCuda.
bool RecordAllWork(cudaEvent_t event);

// These initialise no device. All throw kCuda.

// The CUDA versions of driver and runtime, 1000 * major + 10 * minor; `driver` is 0 without a
// driver.
void ReadCudaVersions(int32_t* driver, int32_t* runtime);

int32_t CountDevices();

void DescribeDevice(int32_t device, CudaDeviceFacts* facts);

// Streams (cudaStream_t) and events (cudaEvent_t) of the thread's device. All throw kCuda;
// functions that wait throw it for errors of earlier work, too.

void* CreateStream();  // not synchronised with the legacy default stream
void DestroyStream(void* stream);
// Throws kUnsupported for a stream that captures a graph: its work is not done.
void WaitForStream(void* stream);
// Throws kCuda for errors of earlier work that have been reported so far; does not wait.
void CheckStream(void* stream);
// The id of the graph capture that the stream takes part in; 0: none. kUnusableByCapture if nothing
// can be enqueued: the capture is invalidated and not ended, or, on the legacy default stream, a
// stream that synchronises with it captures.
uint64_t CaptureId(void* stream);

void* CreateEvent();  // without timing; a host thread that waits for it sleeps
void DestroyEvent(void* event);
void RecordEvent(void* event, void* stream);
void WaitForEvent(void* event);
void OrderAfterEvent(void* stream, void* event);

// Memory of libendcap_cuda.so. `device` is the thread's device. All throw kOutOfMemory and kCuda.

// Stream-ordered device memory from the library's own pool, 256-byte aligned. If the device has too
// little free memory, waits for memory whose release is enqueued, unless the stream captures a
// graph.
void* AllocateOnDevice(int32_t device, size_t bytes, void* stream);
void ReleaseOnDevice(void* memory, void* stream);
// Frees memory that several streams have used, after the work that is now enqueued on `streams`
// and, with `after_all`, on all streams of the device. A stream of the library's own waits for
// them, so that none of them waits for another. Returns false and does nothing if one of them
// captures a graph; with `after_all`, if any stream of the device does, whose capture is then
// invalid.
bool ReleaseAfter(int32_t device, void* memory, std::span<void* const> streams, bool after_all);

// Pinned host memory for all devices. The blocks freed last are kept for reuse, because allocating
// is slow and freeing may wait for the whole device. No work may still use freed memory.
// Thread-safe.
void* AllocatePinned(size_t bytes);
void ReleasePinned(void* memory);

// Copies between host and device in either direction, or within the device. With host memory that
// is not pinned it waits until the copy is done; on a stream that captures a graph such memory is
// refused (kUnsupported).
void Copy(void* to, const void* from, size_t bytes, void* stream);
void Fill(void* to, int32_t byte, size_t bytes, void* stream);

}  // namespace endcap
