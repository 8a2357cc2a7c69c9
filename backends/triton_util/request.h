#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "triton_util/instance.h"
#include "triton_util/tensors.h"
#include "triton_util/triton_api.h"

namespace endcap::triton {

// How an input is read.
struct InputReading {
  bool batched = false;                // the first dimension is the number of items
  ExecutionContext execution_context;  // of the instance
  bool gpu_in_place = false;           // memory of the instance's GPU is not copied to the host
};

// One input of a request: a view of Triton's buffer if it is one buffer at a suitable place and an
// aligned address, else one copy in host memory. Valid until the request is released.
class InputTensor {
 public:
  // Synchronises with a GPU from which it copies. Throws kInvalidArgument for a batched input
  // without dimensions or items; kCuda; ApiError.
  InputTensor(TRITONBACKEND_Input* input, const InputReading& reading);
  InputTensor(InputTensor&&) = default;
  InputTensor& operator=(InputTensor&&) = default;

  const std::string& name() const noexcept { return name_; }
  TRITONSERVER_DataType data_type() const noexcept { return data_type_; }
  // 1 or more; 1 when not batched.
  int64_t item_count() const noexcept { return item_count_; }

  // The dimensions of one item.
  const std::vector<int64_t>& item_shape() const noexcept { return item_shape_; }
  // The bytes of all items, in memory of place().
  Bytes bytes() const noexcept { return bytes_; }
  const MemoryPlace& place() const noexcept { return place_; }

  // The items of a numeric input, in memory of place(). Throws kInvalidArgument if the buffer does
  // not have the size of shape and type, or an item has more than 4 dimensions.
  InputItems Items() const;

  // The elements of a BYTES input in host memory. Throws kInvalidArgument if a length exceeds the
  // buffer, or the number of elements is not that of the shape.
  std::vector<Bytes> Strings() const;

  // The items of an input of unstructured bytes in host memory, all of one length. Throws
  // kInvalidArgument if the size is not a multiple of the number of items.
  std::vector<Bytes> Blobs() const;

 private:
  int64_t ElementCount() const;

  std::string name_;
  TRITONSERVER_DataType data_type_ = TRITONSERVER_TYPE_INVALID;
  std::vector<int64_t> item_shape_;
  int64_t item_count_ = 1;
  std::vector<std::byte> gathered_;
  Bytes bytes_;
  MemoryPlace place_;
};

// A request as the server delivers it. Owns nothing; valid until the request is released. The
// functions throw ApiError if the server returns an error.
class Request {
 public:
  explicit Request(TRITONBACKEND_Request* request) noexcept : request_(request) {}

  TRITONBACKEND_Request* handle() const noexcept { return request_; }

  std::string Id() const;                                     // empty: none
  std::variant<uint64_t, std::string> CorrelationId() const;  // 0: not part of a sequence
  uint32_t Flags() const;                                     // TRITONSERVER_RequestFlag, or-ed
  bool IsCancelled() const;
  uint64_t TimeoutUs() const;  // the request's parameter `timeout`; 0: none
  bool WantsOutput(std::string_view name) const;

  // Returns a description for log lines: "request 'abc'", with the correlation id if there is one.
  // Long ids are clipped.
  std::string Label() const;

  // Returns the memory that the server will provide for an output of that size if `preferred` is
  // requested; it depends on the reader of the output. `preferred` where the server does not know.
  MemoryPlace OutputPlace(std::string_view name, size_t size_bytes,
                          const MemoryPlace& preferred) const;

  // Returns none if the request has no such input. Throws as InputTensor.
  std::optional<InputTensor> FindInput(std::string_view name, const InputReading& reading) const;
  // Throws kInvalidArgument if the request has no such input; as InputTensor.
  InputTensor GetInput(std::string_view name, const InputReading& reading) const;

 private:
  TRITONBACKEND_Request* request_;
};

}  // namespace endcap::triton
