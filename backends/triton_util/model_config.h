#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "endcap/params.h"
#include "triton_util/tensor_contract.h"
#include "triton_util/triton_api.h"

namespace endcap::triton {

// A model's config.pbtxt as the server delivers it while the model loads.
class ModelConfig {
 public:
  // Throws ApiError, or kInvalidArgument for a config that cannot be read.
  explicit ModelConfig(TRITONBACKEND_Model* model);

  TRITONBACKEND_Model* handle() const noexcept { return model_; }
  const std::string& name() const noexcept { return name_; }
  uint64_t version() const noexcept { return version_; }
  // The model's folder, which holds config.pbtxt.
  const std::filesystem::path& folder() const noexcept { return folder_; }
  int max_batch_size() const { return json_.value("max_batch_size", 0); }
  // The whole config, with the field names of config.pbtxt.
  const nlohmann::json& json() const noexcept { return json_; }
  // Whether the server requests auto-completion of the config.
  bool completed() const;

  // Whether the config lists an input of that name.
  bool HasInput(std::string_view name) const;

  // Removes a parameter of the backend's own from `parameters` and returns its value. `name` must
  // outlive this object.
  std::optional<std::string> TakeParameter(std::string_view name);
  // Removes the parameters whose names begin with `prefix` and returns them with their full names.
  ParameterList TakeParametersWithPrefix(std::string_view prefix);
  // Returns the remaining `parameters`. Throws kInvalidArgument with all valid names for one that
  // is neither in `table` nor `preset`, the name of the parameter that selects a whole set of
  // values.
  ParameterList Parameters(std::span<const ParameterInfo> table,
                           std::string_view preset = {}) const;

  // Enables batching, with the dynamic batcher if the config names no scheduler. CompleteTensors
  // sends it to the server.
  void CompleteBatching(int max_batch_size);
  // Checks inputs and outputs against the contracts (see CompleteTensorList), and sends the
  // completed config to the server if that requests auto-completion. Throws kInvalidArgument.
  void CompleteTensors(std::span<const TensorContract> inputs,
                       std::span<const TensorContract> outputs);

 private:
  TRITONBACKEND_Model* model_;
  std::string name_;
  uint64_t version_ = 0;
  std::filesystem::path folder_;
  nlohmann::json json_;
  nlohmann::json parameters_;
  std::vector<std::string_view> own_names_;
};

// Parses a whole number of 0 or more. Throws kInvalidArgument with the name of the parameter.
int ParseCount(std::string_view name, const std::string& text);

}  // namespace endcap::triton
