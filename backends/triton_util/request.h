#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "triton_util/input_tensor.h"
#include "triton_util/memory_place.h"
#include "triton_util/triton_api.h"

namespace endcap::triton {

// What can be read of a request. Owns nothing; valid until the request is released. Functions throw
// ApiError where the server refuses.
class Request {
 public:
  explicit Request(TRITONBACKEND_Request* request) noexcept : request_(request) {}

  TRITONBACKEND_Request* handle() const noexcept { return request_; }

  std::string Id() const;                                     // empty when the client gave none
  std::variant<uint64_t, std::string> CorrelationId() const;  // 0: not part of a sequence
  uint32_t Flags() const;                                     // TRITONSERVER_RequestFlag, or-ed
  bool IsCancelled() const;
  bool WantsOutput(std::string_view name) const;

  // The request in words for log lines: "request 'abc'", with the correlation id if it has one.
  std::string Label() const;

  // Where the server will put an output of that size, if it is asked for memory of `preferred`:
  // what reads the output decides. `preferred` itself where the server cannot tell.
  MemoryPlace OutputPlace(std::string_view name, size_t size_bytes,
                          const MemoryPlace& preferred) const;

  std::optional<InputTensor> FindInput(std::string_view name, const InputReading& reading) const;
  // Throws kInvalidArgument when the request has no such input.
  InputTensor GetInput(std::string_view name, const InputReading& reading) const;

 private:
  TRITONBACKEND_Request* request_;
};

}  // namespace endcap::triton
