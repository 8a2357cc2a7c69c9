#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "endcap/c_api.h"

// The core's C functions with owning handles and exceptions. Includes no DALI header, and uses no
// exception type of the core, which may have another C++ runtime.
namespace endcap::operators {

constexpr endcap_status kInvalidArgumentStatus = 4;  // of endcap/error.h

// Parameters as text, in the form of endcap/params.h.
using Parameters = std::vector<std::pair<std::string, std::string>>;

// Throws if libendcap_c.so has another version than the header that this was compiled with.
void CheckVersion();

// Throws std::invalid_argument (in Python ValueError) for kInvalidArgumentStatus, for other
// failures std::runtime_error (RuntimeError), with the message of the calling thread's last call.
void Check(endcap_status status);

// Throws as Check, with the message `corrupt_image: image index 1 of 5: <message>`.
[[noreturn]] void FailItem(endcap_status status, size_t index, size_t count,
                           const std::string& message);

std::span<const endcap_parameter_info> PreprocessTable();
std::span<const endcap_parameter_info> PostprocessTable();

struct FreeHandle {
  void operator()(endcap_preprocessor* handle) const { endcap_preprocessor_free(handle); }
  void operator()(endcap_postprocessor* handle) const { endcap_postprocessor_free(handle); }
};
using PreprocessorHandle = std::unique_ptr<endcap_preprocessor, FreeHandle>;
using PostprocessorHandle = std::unique_ptr<endcap_postprocessor, FreeHandle>;

// device: ENDCAP_CPU or the number of a GPU. Throw as Check and CheckVersion.
PreprocessorHandle NewPreprocessor(const Parameters& parameters, int32_t device, int32_t threads);
PostprocessorHandle NewPostprocessor(const Parameters& parameters, int32_t device, int32_t threads);

std::span<const endcap_tensor_spec> GetInputs(const endcap_postprocessor* handle);
std::span<const endcap_tensor_spec> GetOutputs(const endcap_postprocessor* handle);

// The result of one sample, kept until all tasks of DALI's pool are done.
struct SampleResult {
  endcap_status call = 0;    // not 0: the call failed; on_error does not apply
  endcap_status status = 0;  // of the item
  std::string message;
};

// Throws for the first sample whose call failed; with `strict` also for the first bad item.
void CheckResults(std::span<const SampleResult> results, bool strict);

}  // namespace endcap::operators
