#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace endcap {

// One code per failure class. The values are the `status` tensor's values: they are part of the
// contract with clients and never change meaning. Python: endcap.errors.Status.
enum class ErrorCode : int32_t {
  kOk = 0,
  kCorruptImage = 1,     // not an image, truncated, or damaged data
  kImageLimit = 2,       // beyond one of the limits in DecodeLimits
  kUnsupported = 3,      // well-formed, but of a kind that this build cannot process
  kInvalidArgument = 4,  // a parameter, shape, dtype or value that cannot be used
  kCuda = 5,             // no usable GPU, or a CUDA call failed
  kOutOfMemory = 6,      // the host or the device ran out of memory
  kInternal = 7,         // a defect in endcap itself
};

// The code's name in lower case with underscores, for example "corrupt_image".
std::string_view ErrorCodeName(ErrorCode code) noexcept;

// The one exception type that the core throws. what() is one error message that names the argument,
// what came, and what is allowed.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

// What became of one item of a batch.
struct ItemStatus {
  ErrorCode code = ErrorCode::kOk;
  std::string message;  // empty when code is kOk
  bool ok() const noexcept { return code == ErrorCode::kOk; }
};

// Turns the exception in flight into a status. Call it inside a catch block only.
ItemStatus MakeStatusFromCurrentException() noexcept;

}  // namespace endcap
