#include "bindings/buffer_pool.h"

#include <cstdlib>
#include <iterator>
#include <memory>
#include <mutex>
#include <new>

namespace py = pybind11;

namespace endcap::python {
namespace {

constexpr size_t kAlignment = 64;  // a cache line, and the longest vector

struct Buffer {
  void* memory;
  size_t bytes;
};

struct Pool {
  std::mutex mutex;
  std::vector<Buffer> free;  // the longest unused first
  size_t free_bytes = 0;

  Buffer Take(size_t bytes) {
    {
      const std::scoped_lock lock(mutex);
      for (auto buffer = free.rbegin(); buffer != free.rend(); ++buffer) {
        if (buffer->bytes != bytes) continue;
        const Buffer found = *buffer;
        free.erase(std::next(buffer).base());
        free_bytes -= bytes;
        return found;
      }
    }
    void* memory = std::aligned_alloc(kAlignment, bytes);
    if (memory == nullptr) throw std::bad_alloc();
    return {memory, bytes};
  }

  Pool() { free.reserve(kPoolBuffers + 1); }

  void Give(const Buffer& buffer) {
    if (buffer.bytes > kPoolBytes) {
      std::free(buffer.memory);
      return;
    }
    const std::scoped_lock lock(mutex);
    free.push_back(buffer);
    free_bytes += buffer.bytes;
    while (free.size() > kPoolBuffers || free_bytes > kPoolBytes) {
      std::free(free.front().memory);
      free_bytes -= free.front().bytes;
      free.erase(free.begin());
    }
  }
};

// Never destroyed: arrays may outlive everything else at the end of the process.
Pool& ThePool() {
  static auto* pool = new Pool;
  return *pool;
}

}  // namespace

py::array PooledArray(const py::dtype& dtype, const std::vector<py::ssize_t>& shape) {
  size_t bytes = static_cast<size_t>(dtype.itemsize());
  for (const py::ssize_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, static_cast<size_t>(size), &bytes)) {
      throw std::bad_alloc();
    }
  }
  if (bytes > SIZE_MAX / 2) throw std::bad_alloc();
  bytes = (bytes / kAlignment + 1) * kAlignment;
  auto buffer = std::make_unique<Buffer>(ThePool().Take(bytes));
  void* memory = buffer->memory;
  const py::capsule owner(buffer.release(), [](void* pointer) {
    const std::unique_ptr<Buffer> returned(static_cast<Buffer*>(pointer));
    ThePool().Give(*returned);
  });
  return {dtype, shape, memory, owner};
}

}  // namespace endcap::python
