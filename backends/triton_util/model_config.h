#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "endcap/params.h"
#include "triton_util/tensor_contract.h"
#include "triton_util/triton_api.h"

namespace endcap::triton {

// A model's config.pbtxt as the server hands it over while the model loads.
class ModelConfig {
 public:
  // Throws ApiError, or kInvalidArgument for a config that cannot be read.
  explicit ModelConfig(TRITONBACKEND_Model* model);

  const std::string& name() const noexcept { return name_; }
  uint64_t version() const noexcept { return version_; }
  // The model's folder, which holds config.pbtxt.
  const std::filesystem::path& folder() const noexcept { return folder_; }
  int max_batch_size() const { return json_.value("max_batch_size", 0); }

  // Removes a parameter that is the backend's own from `parameters`, and returns its value.
  std::optional<std::string> TakeParameter(std::string_view name);
  // What is left of `parameters`.
  ParameterList Parameters() const;

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
};

// Reads a whole number of 0 or more. Throws kInvalidArgument naming the parameter.
int ParseCount(std::string_view name, const std::string& text);

}  // namespace endcap::triton
