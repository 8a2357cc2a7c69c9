#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "endcap/geometry.h"
#include "endcap/params.h"
#include "endcap/postprocess.h"
#include "endcap/preprocess.h"
#include "endcap/tensor_view.h"
#include "endcap/tracking.h"

// What follows from the `parameters` of a model's config.pbtxt: the settings of its backend, and
// its tensors.
namespace endcap {

// Names of tensors and of data types in config.pbtxt.
inline constexpr std::string_view kEncoded = "encoded";
inline constexpr std::string_view kRois = "rois";
inline constexpr std::string_view kClassScores = "class_scores";
inline constexpr std::string_view kClassIds = "class_ids";
inline constexpr std::string_view kClassProbabilities = "class_probabilities";
inline constexpr std::string_view kClassLabels = "class_labels";
inline constexpr std::string_view kClassPaths = "class_paths";
inline constexpr std::string_view kDetectionRle = "detection_rle";
inline constexpr std::string_view kClassMap = "class_map";
inline constexpr std::string_view kClassMapPng = "class_map_png";
inline constexpr std::string_view kClassRle = "class_rle";
inline constexpr std::string_view kConfigString = "TYPE_STRING";
inline constexpr std::string_view kConfigUint8 = "TYPE_UINT8";
std::string ConfigName(DType dtype);  // "TYPE_FP32"

// The outputs of postprocess with a detector, shapes of one image, -1 for the number of rows: those
// that a cascade passes on.
inline constexpr TensorSpec kDetectionOutputs[] = {
    {"num_detections", DType::kInt32, {1}, 1},
    {"detection_boxes", DType::kFloat32, {-1, 4}, 2},
    {"detection_scores", DType::kFloat32, {-1}, 1},
    {"detection_classes", DType::kInt32, {-1}, 1},
    {"detection_indices", DType::kInt32, {-1}, 1},
    {"status", DType::kInt32, {1}, 1},
};

// The inputs of postprocess in addition to the head, for one image.
inline constexpr TensorSpec kGeometryInput{"geometry", DType::kFloat32, {Geometry::kSize}, 1};
inline constexpr TensorSpec kStatusInput{"status", DType::kInt32, {1}, 1};

// A data type and dims of a tensor in config.pbtxt, without the batch dimension; -1 for a dimension
// that is known at run time only.
struct TensorForm {
  std::string data_type;  // "TYPE_FP32"
  std::vector<int64_t> dims;
};

// The forms that a model's parameters allow for one of its tensors.
struct TensorContract {
  std::string name;
  std::vector<TensorForm> forms;  // the first one is the default
  bool optional = false;          // an input that a request, or the config, may omit
  std::string determined_by;      // the parameters that determine it: "num_classes=80"
  // For an output whose elements are not in class order, the one whose elements are. The server's
  // classification takes an element's index for its class, so label_filename is valid only there.
  std::string labels_belong_to;
};

TensorContract MakeContract(const TensorSpec& spec, std::string determined_by = {});
TensorContract MakeContract(std::string_view name, std::string_view data_type,
                            std::vector<int64_t> dims, std::string determined_by = {});
// A tensor with a row for each region of the image. `status` is then a number for each, not a
// tensor of one.
TensorContract MakeRowContract(TensorContract contract);

struct ModelContract {
  std::vector<TensorContract> inputs;
  std::vector<TensorContract> outputs;
  std::vector<ParameterInfo> parameters;  // of the stage, with their values
  ParameterList models;  // that it calls, in the order of the text, each with its parameter's name
  bool takes_batches = true;
  bool takes_sequences = false;
};

// The parameters of a config.pbtxt while a backend reads them.
class ModelParameters {
 public:
  explicit ModelParameters(ParameterList given) : given_(std::move(given)) {}

  // Removes a parameter and returns its value. `name` must outlive this object.
  std::optional<std::string> Take(std::string_view name);
  // The same for a whole number of at least `low`, 0 or 1. Throws kInvalidArgument.
  int TakeCount(std::string_view name, int fallback, int low = 0);
  // The same for a number from 0 to `high`; allowed: a phrase for the error message.
  double TakeNumber(std::string_view name, double fallback, double high, std::string_view allowed);
  // Removes the parameters whose names begin with `prefix` and returns them with their full names.
  ParameterList TakeWithPrefix(std::string_view prefix);
  // Returns the remaining ones. Throws kInvalidArgument with all valid names for one that is
  // neither in `table` nor `preset`, the name of the parameter that selects a whole set of values.
  ParameterList Rest(std::span<const ParameterInfo> table = {}, std::string_view preset = {}) const;

 private:
  ParameterList given_;
  std::vector<std::string_view> own_names_;
};

// Parses a whole number of at least `low`. Throws kInvalidArgument with the name of the parameter.
int ParseCount(std::string_view name, std::string_view text, int low = 0);

// Settings of the backends. Read... throws kInvalidArgument, with a message that begins with the
// parameter's name, for one that is unknown or impossible.
struct PreprocessSettings {
  PreprocessParams params;
  int threads = 0;            // images worked on at the same time; 0: all CPUs
  double max_queue_cost = 0;  // milliseconds of predicted work that may wait; 0: not limited
  bool with_rois = false;     // the config has an input `rois`
  ModelContract contract;
};
PreprocessSettings ReadPreprocessSettings(ModelParameters parameters, bool with_rois);

struct PostprocessSettings {
  PostprocessParams params;
  int threads = 0;
  std::optional<std::string> labels_file;       // relative to the model's folder
  std::optional<std::string> labels_separator;  // between the parts of a line that is a path
  ModelContract contract;
};
PostprocessSettings ReadPostprocessSettings(ModelParameters parameters);

// The name of the output of run-length encodings, where GivesRle.
inline std::string_view RleName(const PostprocessParams& params) noexcept {
  return IsSemantic(params.head.family) ? kClassRle : kDetectionRle;
}

// The inputs of a tracker: the outputs of postprocess that it reads, for one image.
inline constexpr std::span<const TensorSpec> kTrackInputs = std::span(kDetectionOutputs).first(4);
inline constexpr std::string_view kTimestamp = "timestamp";  // optional: seconds, FP64 [1]
inline constexpr TensorSpec kTrackIds{"track_ids", DType::kInt64, {-1}, 1};
inline constexpr TensorSpec kFrameIndex{"frame_index", DType::kInt64, {1}, 1};

struct TrackSettings {
  TrackingParams params;
  int max_sequences = 1000;
  ModelContract contract;
};
TrackSettings ReadTrackSettings(ModelParameters parameters);

// Returns the contract of a model of the backend endcap_preprocess, endcap_postprocess,
// endcap_track or endcap_bls. Throws as the functions above.
ModelContract ReadModelContract(std::string_view backend, ModelParameters parameters,
                                bool with_rois = false);

// A part of a config.pbtxt that contradicts the contract: a field of the model, of an entry of its
// `input` or `output` (by index; -1 for an entry that is missing), or a parameter, by its name.
struct ConfigProblem {
  std::string list;   // "input", "output", "parameters"; empty: the model
  int index = -1;     // in the list
  std::string field;  // "dims", or the name of the parameter
  std::string message;
};

// Checks a model's config, in the server's JSON, and returns what contradicts the contract, the
// first problem of a list first. If `complete`, an absent list of tensors becomes all contracts,
// and missing data types, missing dims and dims of -1 are filled in. Outputs may be a subset.
std::vector<ConfigProblem> CompleteConfig(nlohmann::json& config, const ModelContract& contract,
                                          bool complete);

// Whether a list of the config, such as `input`, has an entry of that name.
bool ListsTensor(const nlohmann::json& config, const char* list, std::string_view name);

}  // namespace endcap
