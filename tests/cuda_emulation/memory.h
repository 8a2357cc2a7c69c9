#pragma once

#include <cstddef>

#include "cuda_emulation/runtime.h"

namespace endcap::emulation {

// The "device memory": a range of addresses that can be read and written only while a
// DeviceAccess lives. All functions want the emulation's lock (runtime.cc) to be held.

class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

// Null when there is no room: ENDCAP_EMULATED_MEMORY_MB, 2048 by default. Filled with a pattern.
void* AllocateDevice(size_t bytes, int device);
// False for memory that is not allocated.
bool ReleaseDevice(void* memory);

void* AllocatePinned(size_t bytes);
bool ReleasePinned(void* memory);

cudaMemoryType GetMemoryType(const void* memory);
// The device of allocated device memory; -1 for other memory.
int GetDevice(const void* memory);

}  // namespace endcap::emulation
