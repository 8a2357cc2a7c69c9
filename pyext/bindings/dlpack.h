#pragma once

#include <cstdint>

// The pending format DLPack 0.8, declared here as far as needed: a capsule named "dltensor"
// holds a DLManagedTensor, and is named "used_dltensor" once a consumer has taken it over.
// https://dmlc.github.io/dlpack/latest/c_api.html

namespace endcap::python::dlpack {

inline constexpr char kFresh[] = "dltensor";
inline constexpr char kUsed[] = "used_dltensor";

inline constexpr int32_t kCuda = 2;  // DLDeviceType

// DLDataTypeCode.
inline constexpr uint8_t kInt = 0;
inline constexpr uint8_t kUint = 1;
inline constexpr uint8_t kFloat = 2;
inline constexpr uint8_t kBool = 6;

struct Device {
  int32_t type;
  int32_t id;
};

struct DataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

struct Tensor {
  void* data;
  Device device;
  int32_t rank;
  DataType data_type;
  int64_t* shape;
  int64_t* strides;  // in elements; null: C-contiguous
  uint64_t byte_offset;
};

struct ManagedTensor {
  Tensor tensor;
  void* owner;
  void (*deleter)(ManagedTensor* self);
};

}  // namespace endcap::python::dlpack
