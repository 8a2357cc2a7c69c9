#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "endcap/contract.h"
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

  // Returns the config's `parameters`.
  ModelParameters parameters() const;

  // Enables batching, with the dynamic batcher if the config names no scheduler. Complete
  // sends it to the server.
  void CompleteBatching(int max_batch_size);
  // Checks the config against the contract (see CompleteConfig), and sends the completed config to
  // the server if that requests auto-completion. Throws kInvalidArgument with the first problem.
  void Complete(const ModelContract& contract);

 private:
  TRITONBACKEND_Model* model_;
  std::string name_;
  uint64_t version_ = 0;
  std::filesystem::path folder_;
  nlohmann::json json_;
};

}  // namespace endcap::triton
