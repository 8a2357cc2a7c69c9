#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "endcap/contract.h"

namespace endcap {

// The models that classify a detection: indices into rois_models() and classifiers().
struct Route {
  size_t rois_model = 0;
  size_t classifier = 0;
  bool operator==(const Route&) const = default;
};

// Maps the class of a detection to the model that crops it and the model that classifies the crop.
class Routes {
 public:
  // Reads "5=preprocess_rois+classify_boats, 0|3=preprocess_rois+classify_shapes,
  // *=preprocess_rois+classify": class ids joined by `|`, or `*` for those that no other entry
  // names. An empty text gives no routes. Throws kInvalidArgument with an error message.
  static Routes Parse(std::string_view text);

  // Returns the route of a class; none: its detections are not classified.
  std::optional<Route> Find(int class_id) const;

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

// The settings of the backend endcap_bls: a detector, and classifiers of its detections.
struct CascadeSettings {
  std::string detect_model = "detect";
  Routes routes;
  double classify_threshold = 0.25;
  size_t classify_batch_size = 16;
  size_t max_in_flight = 16;  // images
  ModelContract contract;
};

// Throws kInvalidArgument with an error message for an unknown or impossible parameter.
CascadeSettings ReadCascadeSettings(ModelParameters parameters);

}  // namespace endcap
