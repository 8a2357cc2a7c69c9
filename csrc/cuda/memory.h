#pragma once

#include <cstddef>
#include <cstdint>

namespace endcap {

// Memory of libendcap_cuda.so. `device` is the thread's device. All throw kOutOfMemory and kCuda.

// Device memory in the order of `stream`, from a pool of the library's own, 256-byte aligned.
void* AllocateOnDevice(int32_t device, size_t bytes, void* stream);
void ReleaseOnDevice(void* memory, void* stream);

void* AllocatePinned(size_t bytes);
void ReleasePinned(void* memory);

// Between host and device either way, or within the device. With host memory that is not pinned it
// waits until the copy is done.
void Copy(void* to, const void* from, size_t bytes, void* stream);
void Fill(void* to, int32_t byte, size_t bytes, void* stream);

}  // namespace endcap
