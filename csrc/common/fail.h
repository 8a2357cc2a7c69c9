#pragma once

#include <sstream>
#include <string>

#include "endcap/error.h"

namespace endcap {

// Throws Error(code) with the parts streamed one after the other as its message.
template <typename... Parts>
[[noreturn]] void Fail(ErrorCode code, const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw Error(code, text.str());
}

template <typename... Parts>
[[noreturn]] void FailArgument(const Parts&... parts) {
  Fail(ErrorCode::kInvalidArgument, parts...);
}

template <typename... Parts>
[[noreturn]] void FailCorrupt(const Parts&... parts) {
  Fail(ErrorCode::kCorruptImage, parts...);
}

}  // namespace endcap
