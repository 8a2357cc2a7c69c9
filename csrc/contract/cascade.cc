#include "endcap/cascade.h"

#include <algorithm>
#include <charconv>

#include "common/fail.h"

namespace endcap {
namespace {

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

// Calls `take` with each part between separators, without surrounding spaces.
template <typename Take>
void Split(std::string_view text, char separator, const Take& take) {
  while (true) {
    const size_t end = text.find(separator);
    take(Trimmed(text.substr(0, end)));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

int ParseClassId(std::string_view text) {
  int id = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, id);
  if (error != std::errc() || stop != end || id < 0) {
    FailArgument("classifiers has the class '", text,
                 "': give class ids of 0 or more joined by |, or * for the rest");
  }
  return id;
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
  if (Trimmed(text).empty()) return routes;
  Split(text, ',', [&](std::string_view entry) { routes.AddEntry(entry); });
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
  const std::string_view rois_model = Trimmed(entry.substr(equals + 1, plus - equals - 1));
  const std::string_view classifier = Trimmed(entry.substr(plus + 1));
  if (rois_model.empty() || classifier.empty()) {
    FailArgument("classifiers has the entry '", entry,
                 "' with a model's name missing: give one on each side of the +");
  }
  AddClasses(Trimmed(entry.substr(0, equals)),
             {FindOrAddIndex(rois_model, rois_models_), FindOrAddIndex(classifier, classifiers_)});
}

void Routes::AddClasses(std::string_view classes, const Route& route) {
  if (classes == "*") {
    if (rest_.has_value())
      FailArgument("classifiers names * twice: the remaining classes can have one route only");
    rest_ = route;
    return;
  }
  Split(classes, '|', [&](std::string_view text) {
    if (!by_class_.emplace(ParseClassId(text), route).second) {
      FailArgument("classifiers names class ", text, " twice: a class can have one route only");
    }
  });
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
