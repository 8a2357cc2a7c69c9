#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "endcap/error.h"
#include "triton_util/handles.h"

namespace endcap::triton {

// A failure of one request or of a call, in Triton's terms.
struct Failure {
  TRITONSERVER_Error_Code code = TRITONSERVER_ERROR_INTERNAL;
  ErrorCode reason = ErrorCode::kInternal;  // endcap's class of it
  std::string message;
  bool names_its_class = false;  // the message is for clients as it stands
};

// An error that Triton itself returned, on its way through our code with its own code.
class ApiError : public std::runtime_error {
 public:
  ApiError(TRITONSERVER_Error_Code code, const std::string& message)
      : std::runtime_error(message), code_(code) {}
  TRITONSERVER_Error_Code code() const noexcept { return code_; }

 private:
  TRITONSERVER_Error_Code code_;
};

// A failure of another model that was called, on its way through our code as it is.
class InnerError : public std::runtime_error {
 public:
  explicit InnerError(Failure failure)
      : std::runtime_error(failure.message), failure_(std::move(failure)) {}
  const Failure& failure() const noexcept { return failure_; }

 private:
  Failure failure_;
};

// Takes ownership of `error`; throws ApiError unless it is null.
void Check(TRITONSERVER_Error* error);

// The table from endcap's failure classes to Triton's.
TRITONSERVER_Error_Code ToTriton(ErrorCode code) noexcept;
// The way back, for errors that are Triton's own.
ErrorCode ToErrorCode(TRITONSERVER_Error_Code code) noexcept;

// The failure in words for clients and logs: "corrupt_image: ...", so that classes with one code
// can be told apart. Empty where memory is too short for it.
std::string Describe(const Failure& failure) noexcept;

// Turns the exception in flight into a Failure. Call it inside a catch block only.
Failure MakeFailureFromCurrentException() noexcept;

// Runs the body of an entry point; what it throws becomes the returned error.
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

}  // namespace endcap::triton
