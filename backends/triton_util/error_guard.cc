#include "triton_util/error_guard.h"

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

// Only codes that one class has for itself, and those that tell the client what to change.
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
    if (failure.names_its_class || failure.reason == ErrorCode::kOk) return failure.message;
    return std::string(ErrorCodeName(failure.reason)) + ": " + failure.message;
  } catch (const std::bad_alloc&) {
    return {};
  }
}

Failure MakeFailureFromCurrentException() noexcept {
  try {
    throw;
  } catch (const InnerError& error) {
    try {
      return error.failure();
    } catch (const std::bad_alloc&) {
      return {ToTriton(ErrorCode::kOutOfMemory), ErrorCode::kOutOfMemory, {}};
    }
  } catch (const ApiError& error) {
    // The message may not fit into memory; the code alone is then the answer.
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
    // Another server may be able to answer.
    const bool restarts = status.code == ErrorCode::kCuda && CudaNeedsRestart();
    return {restarts ? TRITONSERVER_ERROR_UNAVAILABLE : ToTriton(status.code), status.code,
            std::move(status.message)};
  }
}

}  // namespace endcap::triton
