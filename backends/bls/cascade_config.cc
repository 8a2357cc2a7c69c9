#include "bls/cascade_config.h"

#include <charconv>
#include <optional>
#include <utility>

#include "endcap/error.h"
#include "triton_util/tensors.h"

namespace endcap::triton {
namespace {

void ReadCount(ModelConfig& config, std::string_view name, size_t& value) {
  const std::optional<std::string> text = config.TakeParameter(name);
  if (!text.has_value()) return;
  value = static_cast<size_t>(ParseCount(name, *text));
  if (value == 0) {
    throw Error(ErrorCode::kInvalidArgument,
                std::string(name) + " is 0: give a whole number of 1 or more");
  }
}

double ParseThreshold(const std::string& text) {
  double value = -1;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || !(value >= 0 && value <= 1)) {
    throw Error(ErrorCode::kInvalidArgument,
                "classify_threshold is '" + text + "': give a number from 0 to 1");
  }
  return value;
}

// A cascade that called itself would wait until its own request leaves `max_in_flight`.
void RejectSelf(std::string_view parameter, const std::string& model, const ModelConfig& config) {
  if (model != config.name()) return;
  throw Error(ErrorCode::kInvalidArgument,
              std::string(parameter) + " names '" + model +
                  "', which is this model; a cascade cannot call itself, name another model");
}

constexpr int64_t kAnyCount = -1;

TensorContract NewContract(std::string_view name, std::string type, std::vector<int64_t> dims) {
  TensorContract contract;
  contract.name = name;
  contract.forms = {{std::move(type), std::move(dims)}};
  return contract;
}

}  // namespace

CascadeSettings ReadSettings(ModelConfig& config) {
  CascadeSettings settings;
  if (auto model = config.TakeParameter("detect_model")) settings.detect_model = *model;
  if (settings.detect_model.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                "detect_model is empty: give the name of the model that detects, or leave it out");
  }
  RejectSelf("detect_model", settings.detect_model, config);
  if (auto text = config.TakeParameter("classifiers")) settings.routes = bls::Routes::Parse(*text);
  for (const auto* models : {&settings.routes.rois_models(), &settings.routes.classifiers()}) {
    for (const std::string& model : *models) RejectSelf("classifiers", model, config);
  }
  if (auto text = config.TakeParameter("classify_threshold")) {
    settings.classify_threshold = ParseThreshold(*text);
  }
  ReadCount(config, "classify_batch_size", settings.classify_batch_size);
  ReadCount(config, "max_in_flight", settings.max_in_flight);
  // For clients: the names of the detections' classes.
  static_cast<void>(config.TakeParameter("labels"));
  static_cast<void>(config.Parameters({}));  // rejects unknown ones
  return settings;
}

std::vector<TensorContract> CascadeInputContracts() {
  return {NewContract(kEncoded, std::string(kConfigString), {1})};
}

std::vector<TensorContract> CascadeOutputContracts() {
  std::vector<TensorContract> contracts;
  contracts.reserve(kDetectionOutputs.size() + 3);
  for (const TensorSpec& spec : kDetectionOutputs) contracts.push_back(MakeContract(spec));
  contracts.push_back(NewContract(kClassIds, ConfigName(DType::kInt32), {kAnyCount}));
  contracts.push_back(NewContract(kClassScores, ConfigName(DType::kFloat32), {kAnyCount}));
  contracts.push_back(NewContract(kClassLabels, std::string(kConfigString), {kAnyCount}));
  return contracts;
}

}  // namespace endcap::triton
