#include "memory.h"

#include <sanitizer/asan_interface.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>

namespace endcap::emulation {
namespace {

constexpr size_t kAlignment = 4096;  // so that a write past the end meets the pattern or the end
constexpr size_t kDefaultMegabytes = 2048;

size_t Capacity() {
  const char* text = std::getenv("ENDCAP_EMULATED_MEMORY_MB");
  const size_t megabytes = text == nullptr ? kDefaultMegabytes : std::strtoull(text, nullptr, 10);
  return megabytes << 20;
}

struct Arena {
  char* base;
  size_t capacity;
  size_t used_end = 0;  // nothing was ever allocated behind it
  int access_depth = 0;
  struct Allocation {
    size_t bytes;
    int device;
  };
  std::map<size_t, Allocation> allocated;  // by offset

  Arena() : capacity(Capacity()) {
    void* memory = mmap(nullptr, std::max(capacity, kAlignment), PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    base = static_cast<char*>(memory);
    ASAN_POISON_MEMORY_REGION(base, capacity);
  }
  void Protect(int protection) const { Protect(base, used_end, protection); }
  static void Protect(char* start, size_t bytes, int protection) {
    if (bytes > 0 && mprotect(start, bytes, protection) != 0) std::abort();
  }
};

Arena& TheArena() {
  static auto* arena = new Arena;  // outlives every user
  return *arena;
}

std::map<const char*, size_t>& PinnedRanges() {
  static auto* ranges = new std::map<const char*, size_t>;
  return *ranges;
}

}  // namespace

DeviceAccess::DeviceAccess() {
  Arena& arena = TheArena();
  if (arena.access_depth++ == 0) arena.Protect(PROT_READ | PROT_WRITE);
}

DeviceAccess::~DeviceAccess() {
  Arena& arena = TheArena();
  if (--arena.access_depth == 0) arena.Protect(PROT_NONE);
}

void* AllocateDevice(size_t bytes, int device) {
  Arena& arena = TheArena();
  const size_t size = (bytes / kAlignment + 1) * kAlignment;  // at least a byte behind the last
  size_t place = 0;
  for (const auto& [offset, allocation] : arena.allocated) {
    if (offset - place >= size) break;
    place = offset + allocation.bytes;
  }
  if (place > arena.capacity || arena.capacity - place < size) return nullptr;
  arena.allocated[place] = {size, device};
  char* memory = arena.base + place;
  arena.used_end = std::max(arena.used_end, place + size);
  // These pages alone: changing those of all allocations takes longer than all else.
  Arena::Protect(memory, size, PROT_READ | PROT_WRITE);
  // Of what lies behind the last byte that was asked for, AddressSanitizer tells exactly; else the
  // pattern does.
  ASAN_UNPOISON_MEMORY_REGION(memory, size);
  std::memset(memory, 0xA5, size);
  ASAN_POISON_MEMORY_REGION(memory + bytes, size - bytes);
  if (arena.access_depth == 0) Arena::Protect(memory, size, PROT_NONE);
  return memory;
}

bool ReleaseDevice(void* memory) {
  Arena& arena = TheArena();
  const char* address = static_cast<char*>(memory);
  if (address < arena.base || address >= arena.base + arena.capacity) return false;
  const auto found = arena.allocated.find(static_cast<size_t>(address - arena.base));
  if (found == arena.allocated.end()) return false;
  ASAN_POISON_MEMORY_REGION(address, found->second.bytes);
  arena.allocated.erase(found);
  return true;
}

void* AllocatePinned(size_t bytes) {
  void* memory = std::aligned_alloc(kAlignment, (bytes / kAlignment + 1) * kAlignment);
  if (memory != nullptr) PinnedRanges()[static_cast<char*>(memory)] = bytes;
  return memory;
}

bool ReleasePinned(void* memory) {
  if (PinnedRanges().erase(static_cast<char*>(memory)) == 0) return false;
  std::free(memory);
  return true;
}

cudaMemoryType GetMemoryType(const void* memory) {
  const auto* address = static_cast<const char*>(memory);
  const Arena& arena = TheArena();
  if (address >= arena.base && address < arena.base + arena.capacity) return cudaMemoryTypeDevice;
  const auto after = PinnedRanges().upper_bound(address);
  if (after == PinnedRanges().begin()) return cudaMemoryTypeUnregistered;
  const auto& [start, bytes] = *std::prev(after);
  return address < start + bytes ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
}

int GetDevice(const void* memory) {
  const Arena& arena = TheArena();
  const auto* address = static_cast<const char*>(memory);
  if (GetMemoryType(memory) != cudaMemoryTypeDevice) return -1;
  const auto after = arena.allocated.upper_bound(static_cast<size_t>(address - arena.base));
  if (after == arena.allocated.begin()) return -1;
  const auto& [offset, allocation] = *std::prev(after);
  return address < arena.base + offset + allocation.bytes ? allocation.device : -1;
}

}  // namespace endcap::emulation
