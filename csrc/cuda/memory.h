#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace endcap {

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
