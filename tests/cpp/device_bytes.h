#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "cuda/launch.h"

namespace endcap::testing {

class DeviceBytes {
 public:
  explicit DeviceBytes(size_t bytes) {
    Check(cudaMalloc(&data_, bytes + 1), "cudaMalloc");  // at least one
  }
  ~DeviceBytes() { cudaFree(data_); }
  DeviceBytes(DeviceBytes&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  DeviceBytes& operator=(DeviceBytes&&) = delete;

  uint8_t* data() const { return static_cast<uint8_t*>(data_); }
  void Write(const void* from, size_t bytes, size_t offset = 0) {
    Check(cudaMemcpy(data() + offset, from, bytes, cudaMemcpyDefault), "cudaMemcpy");
  }
  std::vector<uint8_t> Read(size_t bytes) const {
    std::vector<uint8_t> values(bytes);
    Check(cudaMemcpy(values.data(), data_, bytes, cudaMemcpyDefault), "cudaMemcpy");
    return values;
  }

 private:
  void* data_ = nullptr;
};

}  // namespace endcap::testing
