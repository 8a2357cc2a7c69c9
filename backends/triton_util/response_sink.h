#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "endcap/tensor_view.h"
#include "triton_util/error_guard.h"
#include "triton_util/handles.h"
#include "triton_util/item_views.h"
#include "triton_util/memory_place.h"

namespace endcap::triton {

// Memory that the server gave for an output.
struct OutputMemory {
  void* data = nullptr;
  MemoryPlace place;
};

// Where the answer to one request goes. A response begins with its first output, or with Send or
// Fail; all of them come from one place, so that a decoupled model can draw them from a factory.
class ResponseSink {
 public:
  explicit ResponseSink(TRITONBACKEND_Request* request) noexcept : request_(request) {}

  // No answer went out yet.
  bool open() const noexcept { return !sent_; }
  // The answer went out, and it was no error.
  bool succeeded() const noexcept { return succeeded_; }

  // Adds an output and returns its memory, which belongs to the response: of the place that is
  // preferred, or another. Throws ApiError; kInvalidArgument when the server gives an address that
  // does not suit the elements, as a client's shared memory can have.
  OutputMemory AddOutput(std::string_view name, TRITONSERVER_DataType data_type,
                         std::span<const int64_t> shape, size_t size_bytes,
                         const MemoryPlace& preferred);
  // The same for a tensor of every item: shape [item_count, ...spec] when batched, else [...spec].
  OutputMemory AddOutput(const TensorSpec& spec, int64_t item_count, bool batched,
                         const MemoryPlace& preferred);

  // Sends the answer; the sink is then closed. Throws ApiError.
  void Send();
  // Sends an error instead of what was begun. What the server refuses is logged.
  void Fail(const Failure& failure) noexcept;

 private:
  TRITONBACKEND_Response* Current();

  TRITONBACKEND_Request* request_;
  ResponseHandle response_;
  bool sent_ = false;
  bool succeeded_ = false;
};

}  // namespace endcap::triton
