#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "endcap/postprocess.h"
#include "postprocess/contracts.h"
#include "postprocess/labels.h"
#include "postprocess/postprocess_model.h"
#include "triton_util/model.h"

namespace endcap::triton {
namespace {

Labels ReadLabels(const std::optional<std::string>& file,
                  const std::optional<std::string>& separator, const ModelConfig& config,
                  const PostprocessParams& params) {
  if (separator.has_value() && !file.has_value()) {
    throw Error(ErrorCode::kInvalidArgument,
                "labels_separator was given without labels_file: give the file whose lines it "
                "separates, or leave it out");
  }
  if (!file.has_value()) return {};
  if (!IsClassification(params.head.family)) {
    throw Error(ErrorCode::kInvalidArgument, "labels_file was given with head=" +
                                                 std::string(HeadFamilyName(params.head.family)) +
                                                 ": it is for head=classification only");
  }
  if (separator.has_value() && separator->empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                "labels_separator is empty: give the text between the parts of a line, for "
                "example /, or leave it out");
  }
  return {config.folder() / *file, params.head.num_classes, separator.value_or("")};
}

// The family is said, never guessed.
void RequireHead(const ParameterList& given) {
  const auto is_head = [](const auto& parameter) { return parameter.first == "head"; };
  if (std::any_of(given.begin(), given.end(), is_head)) return;
  throw Error(
      ErrorCode::kInvalidArgument,
      "parameter 'head' is missing: name the family of the model's head, for example yolov8");
}

class PostprocessBackend final : public Backend {
 public:
  PostprocessBackend()
      : Backend(
            "endcap_postprocess",
            {{"truncated_total", "Images whose candidates max_candidates cut"},
             {"dropped_total", "Anchors with NaN or infinite numbers that on_nan drop left out"},
             {"detections_total", "Detections in the responses"}}) {}

  std::unique_ptr<Model> Load(ModelConfig& config) const override {
    // The parameters that are the backend's own.
    const int threads = ParseCount("threads", config.TakeParameter("threads").value_or("0"));
    const std::optional<std::string> labels_file = config.TakeParameter("labels_file");
    const std::optional<std::string> separator = config.TakeParameter("labels_separator");
    const ParameterList given = config.Parameters(DescribePostprocessParams({}));
    RequireHead(given);
    const PostprocessParams params = ParsePostprocessParams(given);
    Labels labels = ReadLabels(labels_file, separator, config, params);
    config.CompleteTensors(PostprocessInputContracts(params),
                           PostprocessOutputContracts(params, labels.hierarchical()));
    return std::make_unique<PostprocessModel>(config, families(), params, threads,
                                              std::move(labels));
  }
};

}  // namespace

std::unique_ptr<Backend> CreateBackend() { return std::make_unique<PostprocessBackend>(); }

}  // namespace endcap::triton
