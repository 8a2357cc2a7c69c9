#include <algorithm>
#include <array>
#include <limits>

#include "common/fail.h"
#include "common/param_reader.h"
#include "endcap/contract.h"

namespace endcap {

std::string ConfigName(DType dtype) {
  constexpr std::array<std::string_view, 6> kNames = {kConfigUint8, "TYPE_INT8", "TYPE_INT32",
                                                      "TYPE_FP16",  "TYPE_FP32", "TYPE_INT64"};
  return std::string(kNames[static_cast<size_t>(dtype)]);
}

TensorContract MakeContract(std::string_view name, std::string_view data_type,
                            std::vector<int64_t> dims, std::string determined_by) {
  TensorContract contract;
  contract.name = name;
  contract.forms = {{std::string(data_type), std::move(dims)}};
  contract.determined_by = std::move(determined_by);
  return contract;
}

TensorContract MakeContract(const TensorSpec& spec, std::string determined_by) {
  return MakeContract(spec.name, ConfigName(spec.dtype),
                      {spec.shape.begin(), spec.shape.begin() + spec.rank},
                      std::move(determined_by));
}

TensorContract MakeRowContract(TensorContract contract) {
  for (TensorForm& form : contract.forms) {
    if (contract.name == kStatusInput.name) form.dims.clear();
    form.dims.insert(form.dims.begin(), -1);
  }
  return contract;
}

int ParseCount(std::string_view name, std::string_view text, int low) {
  int64_t value = -1;
  try {
    value = ReadInteger(name, text, low, std::numeric_limits<int>::max());
  } catch (const Error&) {
    FailArgument(name, " is '", text, "': give a whole number of ", low, " or more");
  }
  return static_cast<int>(value);
}

std::optional<std::string> ModelParameters::Take(std::string_view name) {
  own_names_.push_back(name);
  const auto found = std::ranges::find(given_, name, &ParameterList::value_type::first);
  if (found == given_.end()) return std::nullopt;
  std::string value = std::move(found->second);
  given_.erase(found);
  return value;
}

int ModelParameters::TakeCount(std::string_view name, int fallback, int low) {
  const std::optional<std::string> text = Take(name);
  return text.has_value() ? ParseCount(name, *text, low) : fallback;
}

double ModelParameters::TakeNumber(std::string_view name, double fallback, double high,
                                   std::string_view allowed) {
  const std::optional<std::string> text = Take(name);
  if (!text.has_value()) return fallback;
  try {
    return ReadNumber(name, *text, 0, high);
  } catch (const Error&) {
    FailArgument(name, " is '", *text, "': give ", allowed);
  }
}

ParameterList ModelParameters::TakeWithPrefix(std::string_view prefix) {
  const auto rest = std::ranges::stable_partition(
      given_, [prefix](const auto& each) { return !each.first.starts_with(prefix); });
  ParameterList taken(rest.begin(), rest.end());
  given_.erase(rest.begin(), rest.end());
  return taken;
}

ParameterList ModelParameters::Rest(std::span<const ParameterInfo> table,
                                    std::string_view preset) const {
  std::vector<std::string_view> names = own_names_;
  if (!preset.empty()) names.push_back(preset);
  for (const ParameterInfo& info : table) names.push_back(info.name);
  for (const auto& [name, value] : given_) {
    if (std::ranges::find(names, name) != names.end()) continue;
    FailArgument("'", name, "' is not a parameter of this backend: there are ", JoinNames(names),
                 DidYouMean(name, names));
  }
  return given_;
}

}  // namespace endcap
