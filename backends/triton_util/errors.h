#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "endcap/error.h"
#include "triton_util/triton_api.h"

namespace endcap::triton {

// A failure of one request or of one call, in Triton's terms.
struct Failure {
  TRITONSERVER_Error_Code code = TRITONSERVER_ERROR_INTERNAL;
  ErrorCode reason = ErrorCode::kInternal;  // endcap's error code, the class in messages
  std::string message;
  bool has_own_context =
      false;  // the message names a model and its class already: none is put in front

  // Whether it is not the model's own failure and may pass: a composing model is not ready or
  // refuses more requests, or the server is ending.
  bool IsOfUnavailableModel() const noexcept {
    return has_own_context && code == TRITONSERVER_ERROR_UNAVAILABLE;
  }
};

// An error that Triton returned; keeps Triton's code.
class ApiError : public std::runtime_error {
 public:
  ApiError(TRITONSERVER_Error_Code code, const std::string& message)
      : std::runtime_error(message), code_(code) {}
  TRITONSERVER_Error_Code code() const noexcept { return code_; }

 private:
  TRITONSERVER_Error_Code code_;
};

// A failure of a composing model; reported to clients unchanged.
class ComposingModelError : public std::runtime_error {
 public:
  explicit ComposingModelError(Failure failure)
      : std::runtime_error(failure.message), failure_(std::move(failure)) {}
  const Failure& failure() const noexcept { return failure_; }

 private:
  Failure failure_;
};

// Takes ownership of `error`. Throws ApiError unless it is null.
void Check(TRITONSERVER_Error* error);

// Maps endcap's failure classes to Triton's codes.
TRITONSERVER_Error_Code ToTriton(ErrorCode code) noexcept;
// Maps the codes of Triton's own errors to failure classes.
ErrorCode ToErrorCode(TRITONSERVER_Error_Code code) noexcept;

// Returns the message for clients and logs, with the failure class in front: "corrupt_image: ...",
// because several classes share one code. Empty when memory is exhausted.
std::string Describe(const Failure& failure) noexcept;

// Converts the current exception. Call inside a catch block only.
Failure MakeFailureFromCurrentException() noexcept;

// Runs the body of an entry point; converts an exception into the returned error.
template <typename Body>
TRITONSERVER_Error* Guard(const Body& body) noexcept {
  try {
    body();
    return nullptr;
  } catch (...) {
    const Failure failure = MakeFailureFromCurrentException();
    return TRITONSERVER_ErrorNew(failure.code, failure.message.c_str());
  }
}

// Writes one line to the server's log. A line that cannot be written is dropped. Thread-safe.
void Log(TRITONSERVER_LogLevel level, std::string_view text) noexcept;

// Takes ownership of `error` and writes it to the server's log unless it is null.
void LogIfFailed(TRITONSERVER_Error* error,
                 TRITONSERVER_LogLevel level = TRITONSERVER_LOG_ERROR) noexcept;

}  // namespace endcap::triton
