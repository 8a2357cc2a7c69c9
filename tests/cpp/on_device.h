#pragma once

#include <vector>

#include "cuda/launch.h"

namespace endcap::testing {

// A vector's copy in device memory.
template <typename T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& values) {
    Check(cudaMalloc(&data_, values.size() * sizeof(T) + 1), "cudaMalloc");
    Check(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyDefault),
          "cudaMemcpy");
  }
  ~OnDevice() { cudaFree(data_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  T* get() const { return static_cast<T*>(data_); }
  std::vector<T> Read(size_t count) const {
    std::vector<T> values(count);
    Check(cudaMemcpy(values.data(), data_, count * sizeof(T), cudaMemcpyDefault), "cudaMemcpy");
    return values;
  }

 private:
  void* data_ = nullptr;
};

}  // namespace endcap::testing
