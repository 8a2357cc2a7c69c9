#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace endcap {

// Memory of libendcap_cuda.so. `device` is the thread's device. All throw kOutOfMemory and kCuda.

// Device memory in the order of `stream`, from a pool of the library's own, 256-byte aligned. Where
// the device has too little, it waits for memory that is still to be freed, unless the stream
// captures a graph.
void* AllocateOnDevice(int32_t device, size_t bytes, void* stream);
void ReleaseOnDevice(void* memory, void* stream);
// Frees memory that several streams have used: once the work is done that `streams` have now and,
// with `after_all`, that of all streams of the device. This is left to a stream of the library's
// own, so that none of them waits for another. Returns false, and does nothing, where one of them
// captures a graph; with `after_all` where any stream of the device does, whose capture is then
// invalid.
bool ReleaseAfter(int32_t device, void* memory, std::span<void* const> streams, bool after_all);

// Pinned host memory for all devices. What is freed last is kept, as allocating takes long and
// freeing may wait for the whole device. Nothing may still use what is freed. Thread-safe.
void* AllocatePinned(size_t bytes);
void ReleasePinned(void* memory);

// Between host and device either way, or within the device. With host memory that is not pinned it
// waits until the copy is done; a stream that captures a graph refuses such memory (kUnsupported).
void Copy(void* to, const void* from, size_t bytes, void* stream);
void Fill(void* to, int32_t byte, size_t bytes, void* stream);

}  // namespace endcap
