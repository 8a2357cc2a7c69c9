#include "triton_util/model_config.h"

#include <algorithm>
#include <charconv>

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

// Joins the names of parameters for a message.
std::string Joined(std::span<const std::string_view> names) {
  std::string joined;
  for (const std::string_view name : names) joined.append(joined.empty() ? "" : ", ").append(name);
  return joined;
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
  parameters_ = json_.value("parameters", Json::object());
}

bool ModelConfig::HasInput(std::string_view name) const {
  const Json inputs = json_.value("input", Json::array());
  return std::any_of(inputs.begin(), inputs.end(),
                     [name](const Json& input) { return input.value("name", "") == name; });
}

std::optional<std::string> ModelConfig::TakeParameter(std::string_view name) {
  own_names_.push_back(name);
  const auto found = parameters_.find(std::string(name));
  if (found == parameters_.end()) return std::nullopt;
  std::string value = found->value("string_value", "");
  parameters_.erase(found);
  return value;
}

ParameterList ModelConfig::TakeParametersWithPrefix(std::string_view prefix) {
  ParameterList taken;
  for (const auto& [key, value] : parameters_.items()) {
    if (key.starts_with(prefix)) taken.emplace_back(key, value.value("string_value", ""));
  }
  for (const auto& entry : taken) parameters_.erase(entry.first);
  return taken;
}

ParameterList ModelConfig::Parameters(std::span<const ParameterInfo> table,
                                      std::string_view preset) const {
  std::vector<std::string_view> names = own_names_;
  if (!preset.empty()) names.push_back(preset);
  for (const ParameterInfo& info : table) names.push_back(info.name);
  ParameterList list;
  for (const auto& [key, value] : parameters_.items()) {
    if (std::find(names.begin(), names.end(), key) == names.end()) {
      throw Error(ErrorCode::kInvalidArgument,
                  "'" + key + "' is not a parameter of this backend: there are " + Joined(names));
    }
    list.emplace_back(key, value.value("string_value", ""));
  }
  return list;
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

void ModelConfig::CompleteTensors(std::span<const TensorContract> inputs,
                                  std::span<const TensorContract> outputs) {
  const bool complete = completed();
  CompleteTensorList(json_["input"], TensorSide::kInput, inputs, complete);
  CompleteTensorList(json_["output"], TensorSide::kOutput, outputs, complete);
  if (!complete) return;

  const std::string text = json_.dump();
  TRITONSERVER_Message* raw = nullptr;
  Check(TRITONSERVER_MessageNewFromSerializedJson(&raw, text.data(), text.size()));
  const MessageHandle message(raw);
  Check(TRITONBACKEND_ModelSetConfig(model_, kConfigVersion, message.get()));
}

int ParseCount(std::string_view name, const std::string& text) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < 0) {
    throw Error(ErrorCode::kInvalidArgument,
                std::string(name) + " is '" + text + "': give a whole number of 0 or more");
  }
  return value;
}

}  // namespace endcap::triton
