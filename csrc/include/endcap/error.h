#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace endcap {

// One code per failure class. The values are those of the `status` tensor: a contract with clients,
// so that their meaning never changes. Python: endcap.errors.Status. Test:
// tests/python/core/test_errors.py (test_status_codes_are_the_contract).
enum class ErrorCode : int32_t {
  kOk = 0,
  kCorruptImage = 1,     // not an image, truncated, or damaged data
  kImageLimit = 2,       // exceeds one of the limits in DecodeLimits
  kUnsupported = 3,      // well-formed, but of a kind that this build cannot process
  kInvalidArgument = 4,  // a parameter, shape, dtype or value that cannot be used
  kCuda = 5,             // no usable GPU, or a CUDA call failed
  kOutOfMemory = 6,      // the host or the device ran out of memory
  kInternal = 7,         // a defect in endcap itself
};

// The code's name in lower case with underscores, for example "corrupt_image".
std::string_view ErrorCodeName(ErrorCode code) noexcept;

// The only exception type that the core throws. what() is an error message that names the argument,
// the value, and what is allowed.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

// The result of one item of a batch. The tensor of a failed item is filled with zeros; the other
// items are not affected.
struct ItemStatus {
  ErrorCode code = ErrorCode::kOk;
  std::string message;  // empty when code is kOk
  bool ok() const noexcept { return code == ErrorCode::kOk; }
};

// Returns a text that a client gave, such as a request id, for messages and log lines: at most 256
// bytes of it, cut between UTF-8 characters, and "..." for the rest.
std::string ClipText(std::string_view text);

// Converts the current exception to a status: the code of an Error, kOutOfMemory for
// std::bad_alloc, kInternal for any other. Only inside a catch block.
ItemStatus MakeStatusFromCurrentException() noexcept;

}  // namespace endcap
