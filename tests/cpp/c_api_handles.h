#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "endcap/c_api.h"
#include "endcap/error.h"
#include "endcap/params.h"

// The C functions with what a test would else repeat: handles that free themselves, parameters of
// the core's form, and expectations of errors.

namespace endcap::testing {

struct FreeHandle {
  void operator()(endcap_preprocessor* handle) const { endcap_preprocessor_free(handle); }
  void operator()(endcap_postprocessor* handle) const { endcap_postprocessor_free(handle); }
};
using PreprocessorHandle = std::unique_ptr<endcap_preprocessor, FreeHandle>;
using PostprocessorHandle = std::unique_ptr<endcap_postprocessor, FreeHandle>;

inline std::vector<endcap_parameter> CParameters(const ParameterList& list) {
  std::vector<endcap_parameter> parameters;
  for (const auto& [name, value] : list) parameters.push_back({name.c_str(), value.c_str()});
  return parameters;
}

inline PreprocessorHandle NewPreprocessor(const ParameterList& list, int32_t device = ENDCAP_CPU,
                                          int32_t threads = 1) {
  const auto parameters = CParameters(list);
  endcap_preprocessor* made = nullptr;
  EXPECT_EQ(endcap_preprocessor_new(parameters.data(), parameters.size(), device, threads, &made),
            0)
      << endcap_last_error();
  return PreprocessorHandle(made);
}

inline PostprocessorHandle NewPostprocessor(const ParameterList& list, int32_t device = ENDCAP_CPU,
                                            int32_t threads = 1) {
  const auto parameters = CParameters(list);
  endcap_postprocessor* made = nullptr;
  EXPECT_EQ(endcap_postprocessor_new(parameters.data(), parameters.size(), device, threads, &made),
            0)
      << endcap_last_error();
  return PostprocessorHandle(made);
}

// Whether `status`, of the call just made, is `code` and its message holds `part`.
inline ::testing::AssertionResult Refused(ErrorCode code, const std::string& part,
                                          endcap_status status) {
  const std::string message = endcap_last_error();
  if (status != static_cast<endcap_status>(code)) {
    return ::testing::AssertionFailure()
           << "the status is " << endcap_status_name(status) << "; last message: " << message;
  }
  if (message.find(part) == std::string::npos) {
    return ::testing::AssertionFailure() << "'" << message << "' does not hold '" << part << "'";
  }
  return ::testing::AssertionSuccess();
}

inline ::testing::AssertionResult Refused(const std::string& part, endcap_status status) {
  return Refused(ErrorCode::kInvalidArgument, part, status);
}

}  // namespace endcap::testing
