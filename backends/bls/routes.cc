#include "bls/routes.h"

#include <algorithm>
#include <charconv>

#include "endcap/error.h"

namespace endcap::bls {
namespace {

[[noreturn]] void Reject(const std::string& what) {
  throw Error(ErrorCode::kInvalidArgument, "classifiers " + what);
}

std::string Quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

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
    Reject("has the class " + Quoted(text) +
           ": give class ids of 0 or more joined by |, or * for the rest");
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
    Reject("has the entry " + Quoted(entry) +
           ": give CLASSES=ROIS_MODEL+CLASSIFIER, for example *=preprocess_rois+classify");
  }
  const std::string_view rois_model = Trimmed(entry.substr(equals + 1, plus - equals - 1));
  const std::string_view classifier = Trimmed(entry.substr(plus + 1));
  if (rois_model.empty() || classifier.empty()) {
    Reject("has the entry " + Quoted(entry) +
           " with a model's name missing: give one on each side of the +");
  }
  AddClasses(Trimmed(entry.substr(0, equals)),
             {FindOrAddIndex(rois_model, rois_models_), FindOrAddIndex(classifier, classifiers_)});
}

void Routes::AddClasses(std::string_view classes, const Route& route) {
  if (classes == "*") {
    if (rest_.has_value()) Reject("names * twice: the remaining classes can have one route only");
    rest_ = route;
    return;
  }
  Split(classes, '|', [&](std::string_view text) {
    if (!by_class_.emplace(ParseClassId(text), route).second) {
      Reject("names class " + std::string(text) + " twice: a class can have one route only");
    }
  });
}

std::optional<Route> Routes::Find(int class_id) const {
  const auto found = by_class_.find(class_id);
  return found == by_class_.end() ? rest_ : std::optional(found->second);
}

std::vector<SelectedRow> SelectRows(std::span<const float> scores,
                                    std::span<const int32_t> class_ids, double threshold,
                                    const Routes& routes) {
  std::vector<SelectedRow> selected;
  for (size_t row = 0; row < scores.size(); ++row) {
    if (!(static_cast<double>(scores[row]) > threshold)) continue;
    const std::optional<Route> route = routes.Find(class_ids[row]);
    if (route.has_value()) selected.push_back({row, *route});
  }
  return selected;
}

}  // namespace endcap::bls
