#include "triton_util/model_config.h"

#include "endcap/error.h"
#include "triton_util/errors.h"

namespace endcap::triton {
namespace {

constexpr uint32_t kConfigVersion = 1;

using Json = nlohmann::json;

Json ReadConfig(TRITONBACKEND_Model* model) {
  TRITONSERVER_Message* raw = nullptr;
  Check(TRITONBACKEND_ModelConfig(model, kConfigVersion, &raw));
  const MessageHandle message(raw);
  const char* text = nullptr;
  size_t size = 0;
  Check(TRITONSERVER_MessageSerializeToJson(message.get(), &text, &size));
  try {
    return Json::parse(text, text + size);
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::kInvalidArgument,
                std::string("the server delivered a config that is not JSON: ") + error.what());
  }
}

}  // namespace

ModelConfig::ModelConfig(TRITONBACKEND_Model* model) : model_(model) {
  const char* text = nullptr;
  Check(TRITONBACKEND_ModelName(model, &text));
  name_ = text;
  Check(TRITONBACKEND_ModelVersion(model, &version_));
  TRITONBACKEND_ArtifactType type = TRITONBACKEND_ARTIFACT_FILESYSTEM;
  Check(TRITONBACKEND_ModelRepository(model, &type, &text));
  folder_ = text;
  json_ = ReadConfig(model);
}

ModelParameters ModelConfig::parameters() const {
  ParameterList given;
  const Json parameters = json_.value("parameters", Json::object());
  for (const auto& [name, value] : parameters.items()) {
    given.emplace_back(name, value.value("string_value", ""));
  }
  return ModelParameters(std::move(given));
}

bool ModelConfig::completed() const {
  bool requested = false;
  Check(TRITONBACKEND_ModelAutoCompleteConfig(model_, &requested));
  return requested;
}

void ModelConfig::CompleteBatching(int max_batch_size) {
  json_["max_batch_size"] = max_batch_size;
  if (max_batch_size < 2 || json_.contains("dynamic_batching") ||
      json_.contains("sequence_batching")) {
    return;
  }
  json_["dynamic_batching"] = Json::object();
}

void ModelConfig::Complete(const ModelContract& contract) {
  const bool complete = completed();
  const std::vector<ConfigProblem> problems = CompleteConfig(json_, contract, complete);
  if (!problems.empty()) throw Error(ErrorCode::kInvalidArgument, problems.front().message);
  if (!complete) return;

  const std::string text = json_.dump();
  TRITONSERVER_Message* raw = nullptr;
  Check(TRITONSERVER_MessageNewFromSerializedJson(&raw, text.data(), text.size()));
  const MessageHandle message(raw);
  Check(TRITONBACKEND_ModelSetConfig(model_, kConfigVersion, message.get()));
}

}  // namespace endcap::triton
