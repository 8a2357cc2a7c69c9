#pragma once

#include <gtest/gtest.h>

#include <string>

#include "endcap/error.h"

namespace endcap::testing {

// Whether `call` throws Error with `code` and a sentence that holds `part`.
template <typename Call>
::testing::AssertionResult Throws(ErrorCode code, const std::string& part, Call call) {
  try {
    call();
  } catch (const Error& error) {
    const std::string sentence = error.what();
    if (error.code() != code) {
      return ::testing::AssertionFailure()
             << "the code is " << ErrorCodeName(error.code()) << ": " << sentence;
    }
    if (sentence.find(part) == std::string::npos) {
      return ::testing::AssertionFailure() << "'" << sentence << "' does not hold '" << part << "'";
    }
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << "nothing was thrown";
}

}  // namespace endcap::testing
