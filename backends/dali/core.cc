#include "core.h"

#include <stdexcept>

namespace endcap::operators {
namespace {

[[noreturn]] void Throw(endcap_status status, const std::string& message) {
  if (status == kInvalidArgumentStatus) throw std::invalid_argument(message);
  throw std::runtime_error(message);
}

std::vector<endcap_parameter> ToRows(const Parameters& parameters) {
  std::vector<endcap_parameter> rows;
  rows.reserve(parameters.size());
  for (const auto& [name, value] : parameters) rows.push_back({name.c_str(), value.c_str()});
  return rows;
}

}  // namespace

void CheckVersion() {
  if (endcap_c_abi() == ENDCAP_C_ABI) return;
  throw std::runtime_error("libendcap_dali.so was built for another libendcap_c.so than endcap " +
                           std::string(endcap_version()) + "'s: run `endcap dali build`");
}

void Check(endcap_status status) {
  if (status != 0) Throw(status, endcap_last_error());
}

void FailItem(endcap_status status, size_t index, size_t count, const std::string& message) {
  Throw(status, std::string(endcap_status_name(status)) + ": image index " + std::to_string(index) +
                    " of " + std::to_string(count) + ": " + message);
}

std::span<const endcap_parameter_info> PreprocessTable() {
  const endcap_parameter_info* rows = nullptr;
  size_t count = 0;
  return endcap_preprocess_parameters(&rows, &count) == 0 ? std::span(rows, count)
                                                          : std::span(rows, 0);
}

std::span<const endcap_parameter_info> PostprocessTable() {
  const endcap_parameter_info* rows = nullptr;
  size_t count = 0;
  return endcap_postprocess_parameters(&rows, &count) == 0 ? std::span(rows, count)
                                                           : std::span(rows, 0);
}

PreprocessorHandle NewPreprocessor(const Parameters& parameters, int32_t device, int32_t threads) {
  CheckVersion();
  const auto rows = ToRows(parameters);
  endcap_preprocessor* made = nullptr;
  Check(endcap_preprocessor_new(rows.data(), rows.size(), device, threads, &made));
  return PreprocessorHandle(made);
}

PostprocessorHandle NewPostprocessor(const Parameters& parameters, int32_t device,
                                     int32_t threads) {
  CheckVersion();
  const auto rows = ToRows(parameters);
  endcap_postprocessor* made = nullptr;
  Check(endcap_postprocessor_new(rows.data(), rows.size(), device, threads, &made));
  return PostprocessorHandle(made);
}

std::span<const endcap_tensor_spec> GetInputs(const endcap_postprocessor* handle) {
  const endcap_tensor_spec* rows = nullptr;
  size_t count = 0;
  Check(endcap_postprocessor_inputs(handle, &rows, &count));
  return {rows, count};
}

std::span<const endcap_tensor_spec> GetOutputs(const endcap_postprocessor* handle) {
  const endcap_tensor_spec* rows = nullptr;
  size_t count = 0;
  Check(endcap_postprocessor_outputs(handle, &rows, &count));
  return {rows, count};
}

void CheckResults(std::span<const SampleResult> results, bool strict) {
  for (size_t i = 0; i < results.size(); ++i) {
    const SampleResult& result = results[i];
    if (result.call != 0) FailItem(result.call, i, results.size(), result.message);
    if (strict && result.status != 0) {
      FailItem(result.status, i, results.size(), result.message);
    }
  }
}

}  // namespace endcap::operators
