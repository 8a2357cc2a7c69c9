#include "endcap/cascade.h"

#include <algorithm>

#include "common/fail.h"
#include "common/param_reader.h"

namespace endcap {
namespace {

int ParseClassId(std::string_view text) {
  try {
    return static_cast<int>(ReadInteger("classifiers", text, 0, INT32_MAX));
  } catch (const Error&) {
    FailArgument("classifiers has the class '", text,
                 "': give class ids of 0 or more joined by |, or * for the rest");
  }
}

size_t FindOrAddIndex(std::string_view name, std::vector<std::string>& names) {
  const auto known = std::find(names.begin(), names.end(), name);
  if (known != names.end()) return static_cast<size_t>(known - names.begin());
  names.emplace_back(name);
  return names.size() - 1;
}

}  // namespace

Routes Routes::Parse(std::string_view text) {
  Routes routes;
  if (Trim(text).empty()) return routes;
  for (const std::string_view entry : Split(text)) routes.AddEntry(Trim(entry));
  return routes;
}

void Routes::AddEntry(std::string_view entry) {
  const size_t equals = entry.find('=');
  const size_t plus =
      equals == std::string_view::npos ? std::string_view::npos : entry.find('+', equals);
  if (plus == std::string_view::npos) {
    FailArgument("classifiers has the entry '", entry,
                 "': give CLASSES=ROIS_MODEL+CLASSIFIER, for example *=preprocess_rois+classify");
  }
  const std::string_view rois_model = Trim(entry.substr(equals + 1, plus - equals - 1));
  const std::string_view classifier = Trim(entry.substr(plus + 1));
  if (rois_model.empty() || classifier.empty()) {
    FailArgument("classifiers has the entry '", entry,
                 "' with a model's name missing: give one on each side of the +");
  }
  AddClasses(Trim(entry.substr(0, equals)),
             {FindOrAddIndex(rois_model, rois_models_), FindOrAddIndex(classifier, classifiers_)});
}

void Routes::AddClasses(std::string_view classes, const Route& route) {
  if (classes == "*") {
    if (rest_.has_value())
      FailArgument("classifiers names * twice: the remaining classes can have one route only");
    rest_ = route;
    return;
  }
  for (const std::string_view part : Split(classes, '|')) {
    const std::string_view text = Trim(part);
    if (!by_class_.emplace(ParseClassId(text), route).second) {
      FailArgument("classifiers names class ", text, " twice: a class can have one route only");
    }
  }
}

std::optional<Route> Routes::Find(int class_id) const {
  const auto found = by_class_.find(class_id);
  return found == by_class_.end() ? rest_ : std::optional(found->second);
}

CascadeSettings ReadCascadeSettings(ModelParameters parameters) {
  CascadeSettings settings;
  if (auto model = parameters.Take("detect_model")) settings.detect_model = *model;
  if (settings.detect_model.empty()) {
    FailArgument("detect_model is empty: give the name of the model that detects, or leave it out");
  }
  if (auto text = parameters.Take("classifiers")) settings.routes = Routes::Parse(*text);
  settings.classify_threshold = parameters.TakeNumber(
      "classify_threshold", settings.classify_threshold, 1, "a number from 0 to 1");
  const auto take_count = [&](std::string_view name, size_t& value) {
    value = static_cast<size_t>(parameters.TakeCount(name, static_cast<int>(value), 1));
  };
  take_count("classify_batch_size", settings.classify_batch_size);
  take_count("max_in_flight", settings.max_in_flight);
  static_cast<void>(parameters.Take("labels"));  // for clients: the names of detections' classes
  static_cast<void>(parameters.Rest());          // rejects unknown ones

  ModelContract& contract = settings.contract;
  contract.models.emplace_back("detect_model", settings.detect_model);
  for (const auto* models : {&settings.routes.rois_models(), &settings.routes.classifiers()}) {
    for (const std::string& model : *models) contract.models.emplace_back("classifiers", model);
  }
  contract.inputs = {MakeContract(kEncoded, kConfigString, {1})};
  for (const TensorSpec& spec : kDetectionOutputs) contract.outputs.push_back(MakeContract(spec));
  contract.outputs.push_back(MakeContract(kClassIds, ConfigName(DType::kInt32), {-1}));
  contract.outputs.push_back(MakeContract(kClassScores, ConfigName(DType::kFloat32), {-1}));
  contract.outputs.push_back(MakeContract(kClassLabels, kConfigString, {-1}));
  return settings;
}

}  // namespace endcap
