#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "triton_util/instance.h"
#include "triton_util/item_views.h"
#include "triton_util/memory_place.h"
#include "triton_util/triton_api.h"

namespace endcap::triton {

using Bytes = std::span<const std::byte>;

// How an input is read.
struct InputReading {
  bool batched = false;                // the first dimension counts the request's items
  ExecutionContext execution_context;  // where the instance works
  bool gpu_in_place = false;           // memory of the execution_context's GPU may stay where it is
};

// One input of a request: a view of Triton's own buffer when that is one piece of memory of the
// right place, at an address that suits the elements, else a copy in host memory made once. Valid
// until the request is released.
class InputTensor {
 public:
  // Throws kInvalidArgument for a batched input without dimensions; kCuda where memory of a GPU
  // cannot be copied.
  InputTensor(TRITONBACKEND_Input* input, const InputReading& reading);
  InputTensor(InputTensor&&) = default;
  InputTensor& operator=(InputTensor&&) = default;

  const std::string& name() const noexcept { return name_; }
  TRITONSERVER_DataType data_type() const noexcept { return data_type_; }
  // How many items there are; 1 when not batched.
  int64_t item_count() const noexcept { return item_count_; }

  // The dimensions of one item.
  const std::vector<int64_t>& item_shape() const noexcept { return item_shape_; }
  // All items, and where they are: on the GPU where they were read in place.
  Bytes bytes() const noexcept { return bytes_; }
  const MemoryPlace& place() const noexcept { return place_; }

  // The items of a numeric input, on the GPU where they were read in place. Throws kInvalidArgument
  // when the buffer does not have the size that shape and type ask for, or the rank is too high.
  InputItems Items() const;

  // The elements of a BYTES input in host memory. Throws kInvalidArgument when a length prefix
  // points past the buffer, or there are more or fewer elements than the shape asks for.
  std::vector<Bytes> Strings() const;

  // The items of an input of bytes without structure in host memory, of equal length each.
  std::vector<Bytes> Blobs() const;

 private:
  int64_t ElementCount() const;

  std::string name_;
  TRITONSERVER_DataType data_type_ = TRITONSERVER_TYPE_INVALID;
  std::vector<int64_t> item_shape_;  // dimensions of one item
  int64_t item_count_ = 1;
  std::vector<std::byte> gathered_;
  Bytes bytes_;
  MemoryPlace place_;
};

}  // namespace endcap::triton
