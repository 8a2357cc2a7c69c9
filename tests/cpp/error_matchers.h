#pragma once

#include <gtest/gtest.h>

#include <string>

#include "endcap/error.h"

namespace endcap::testing {

// Whether `call` throws Error with `code` and an error message that holds `part`.
template <typename Call>
::testing::AssertionResult Throws(ErrorCode code, const std::string& part, Call call) {
  try {
    call();
  } catch (const Error& error) {
    const std::string message = error.what();
    if (error.code() != code) {
      return ::testing::AssertionFailure()
             << "the code is " << ErrorCodeName(error.code()) << ": " << message;
    }
    if (message.find(part) == std::string::npos) {
      return ::testing::AssertionFailure() << "'" << message << "' does not hold '" << part << "'";
    }
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << "nothing was thrown";
}

}  // namespace endcap::testing
