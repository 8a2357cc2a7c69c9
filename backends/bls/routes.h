#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace endcap::bls {

// The way of one detection to its classes: indices into rois_models() and classifiers().
struct Route {
  size_t rois_model = 0;
  size_t classifier = 0;
  bool operator==(const Route&) const = default;
};

// Which detections are cut out by which model, and classified by which.
class Routes {
 public:
  // Reads "5=preprocess_rois+classify_rings, 0|3=preprocess_rois+classify_shapes,
  // *=preprocess_rois+classify": class ids joined by `|`, or `*` for those that no other entry
  // names. An empty text routes nothing. Throws kInvalidArgument with an error message.
  static Routes Parse(std::string_view text);

  // The route of a class; none: detections of it are not classified.
  std::optional<Route> Of(int class_id) const;

  bool empty() const noexcept { return !rest_.has_value() && by_class_.empty(); }
  // Each model once, in the order of the text.
  const std::vector<std::string>& rois_models() const noexcept { return rois_models_; }
  const std::vector<std::string>& classifiers() const noexcept { return classifiers_; }

 private:
  void AddEntry(std::string_view entry);
  void AddClasses(std::string_view classes, const Route& route);

  std::vector<std::string> rois_models_;
  std::vector<std::string> classifiers_;
  std::map<int, Route> by_class_;
  std::optional<Route> rest_;
};

}  // namespace endcap::bls
