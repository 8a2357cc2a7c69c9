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

// A model's config.pbtxt as the server hands it over while the model loads.
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
  // The whole config, in the names of config.pbtxt.
  const nlohmann::json& json() const noexcept { return json_; }
  // Whether the server asked for the config to be completed.
  bool completed() const;

  // Whether the config lists an input of that name.
  bool HasInput(std::string_view name) const;

  // Removes a parameter that is the backend's own from `parameters`, and returns its value. `name`
  // must outlive this object.
  std::optional<std::string> TakeParameter(std::string_view name);
  // Removes those whose names begin with `prefix`, and returns them with their whole names.
  ParameterList TakeParametersWithPrefix(std::string_view prefix);
  // What is left of `parameters`. Throws kInvalidArgument for a name that is neither in `table` nor
  // `preset`, which stands for a whole table, with all the names that there are.
  ParameterList Parameters(std::span<const ParameterInfo> table,
                           std::string_view preset = {}) const;

  // Lets requests be batched, by the dynamic batcher where the config names no scheduler. It is
  // handed to the server with the tensors.
  void CompleteBatching(int max_batch_size);
  // Holds inputs and outputs to the contracts (see Settle) and hands the completed config to the
  // server where it asked for that.
  void SettleTensors(std::span<const TensorContract> inputs,
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

// Reads a whole number of 0 or more. Throws kInvalidArgument naming the parameter.
int ParseCount(std::string_view name, const std::string& text);

}  // namespace endcap::triton
