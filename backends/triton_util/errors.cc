#include "triton_util/errors.h"

#include <new>
#include <utility>

#include "endcap/cuda.h"

namespace endcap::triton {

void Check(TRITONSERVER_Error* error) {
  if (error == nullptr) return;
  const ErrorHandle owner(error);
  throw ApiError(TRITONSERVER_ErrorCode(error), TRITONSERVER_ErrorMessage(error));
}

TRITONSERVER_Error_Code ToTriton(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kCorruptImage:
    case ErrorCode::kImageLimit:
    case ErrorCode::kUnsupported:
    case ErrorCode::kInvalidArgument:
      return TRITONSERVER_ERROR_INVALID_ARG;
    case ErrorCode::kOutOfMemory:
      return TRITONSERVER_ERROR_UNAVAILABLE;
    case ErrorCode::kOk:
    case ErrorCode::kCuda:
    case ErrorCode::kInternal:
      return TRITONSERVER_ERROR_INTERNAL;
  }
  return TRITONSERVER_ERROR_INTERNAL;
}

// A code that several classes share becomes the class that clients can act on, else kInternal.
ErrorCode ToErrorCode(TRITONSERVER_Error_Code code) noexcept {
  switch (code) {
    case TRITONSERVER_ERROR_INVALID_ARG:
      return ErrorCode::kInvalidArgument;
    case TRITONSERVER_ERROR_UNSUPPORTED:
      return ErrorCode::kUnsupported;
    case TRITONSERVER_ERROR_UNAVAILABLE:
      return ErrorCode::kOutOfMemory;
    default:
      return ErrorCode::kInternal;
  }
}

std::string Describe(const Failure& failure) noexcept {
  try {
    if (failure.has_own_context || failure.reason == ErrorCode::kOk) return failure.message;
    return std::string(ErrorCodeName(failure.reason)) + ": " + failure.message;
  } catch (const std::bad_alloc&) {
    return {};
  }
}

Failure MakeFailureFromCurrentException() noexcept {
  try {
    throw;
  } catch (const ComposingModelError& error) {
    try {
      return error.failure();
    } catch (const std::bad_alloc&) {
      return {ToTriton(ErrorCode::kOutOfMemory), ErrorCode::kOutOfMemory, {}};
    }
  } catch (const ApiError& error) {
    // Memory may not suffice for the message; the code is then reported without it.
    Failure failure{error.code(), ToErrorCode(error.code()), {}};
    try {
      failure.message = error.what();
    } catch (const std::bad_alloc&) {
      failure.reason = ErrorCode::kOutOfMemory;
      failure.code = ToTriton(failure.reason);
    }
    return failure;
  } catch (...) {
    ItemStatus status = MakeStatusFromCurrentException();
    // UNAVAILABLE lets clients try another server.
    const bool restarts = status.code == ErrorCode::kCuda && CudaNeedsRestart();
    return {restarts ? TRITONSERVER_ERROR_UNAVAILABLE : ToTriton(status.code), status.code,
            std::move(status.message)};
  }
}

void Log(TRITONSERVER_LogLevel level, std::string_view text) noexcept {
  if (!TRITONSERVER_LogIsEnabled(level)) return;
  try {
    const std::string line(text);
    const ErrorHandle unwritten(TRITONSERVER_LogMessage(level, "endcap", 0, line.c_str()));
  } catch (const std::bad_alloc&) {
    const ErrorHandle unwritten(
        TRITONSERVER_LogMessage(level, "endcap", 0, "out of memory while writing a log line"));
  }
}

void LogIfFailed(TRITONSERVER_Error* error, TRITONSERVER_LogLevel level) noexcept {
  const ErrorHandle owner(error);
  if (owner != nullptr) Log(level, TRITONSERVER_ErrorMessage(owner.get()));
}

}  // namespace endcap::triton
