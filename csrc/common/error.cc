#include "endcap/error.h"

#include <array>
#include <exception>
#include <new>

namespace endcap {

std::string_view ErrorCodeName(ErrorCode code) noexcept {
  constexpr std::array<std::string_view, 8> kNames = {
      "ok",   "corrupt_image", "image_limit", "unsupported", "invalid_argument",
      "cuda", "out_of_memory", "internal"};
  const auto number = static_cast<size_t>(code);
  return number < kNames.size() ? kNames[number] : "unknown";
}

std::string ClipText(std::string_view text) {
  constexpr size_t kMaxBytes = 256;
  constexpr size_t kMaxContinuationBytes = 3;  // of a character, after its first byte
  if (text.size() <= kMaxBytes) return std::string(text);
  const auto continues = [&](size_t at) { return (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80; };
  size_t end = kMaxBytes;
  while (end > kMaxBytes - kMaxContinuationBytes && continues(end)) --end;
  if (continues(end)) end = kMaxBytes;  // not UTF-8
  return std::string(text.substr(0, end)).append("...");
}

namespace {

ItemStatus DescribeCurrentException() {
  try {
    throw;
  } catch (const Error& error) {
    return {error.code(), error.what()};
  } catch (const std::bad_alloc&) {
    return {ErrorCode::kOutOfMemory, "out of memory"};
  } catch (const std::exception& error) {
    return {ErrorCode::kInternal, error.what()};
  } catch (...) {
    return {ErrorCode::kInternal, "unknown exception"};
  }
}

}  // namespace

ItemStatus MakeStatusFromCurrentException() noexcept {
  try {
    return DescribeCurrentException();
  } catch (...) {
    // There was no memory for the message; a string this short needs none.
    return {ErrorCode::kOutOfMemory, "no memory"};
  }
}

}  // namespace endcap
