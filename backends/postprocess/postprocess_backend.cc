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

Labels ReadLabels(const std::optional<std::string>& file, const ModelConfig& config,
                  const PostprocessParams& params) {
  if (!file.has_value()) return {};
  if (params.head.family != HeadFamily::kClassification) {
    throw Error(ErrorCode::kInvalidArgument, "labels_file was given with head=" +
                                                 std::string(HeadFamilyName(params.head.family)) +
                                                 ": it is for head=classification only");
  }
  return {config.folder() / *file, params.head.num_classes};
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
      : Backend("endcap_postprocess",
                {{"truncated_total", "Images whose candidates max_candidates cut"},
                 {"detections_total", "Detections in the answers"}}) {}

  std::unique_ptr<Model> Load(ModelConfig& config) const override {
    // The parameters that are the backend's own.
    const int threads = ParseCount("threads", config.TakeParameter("threads").value_or("0"));
    const std::optional<std::string> labels_file = config.TakeParameter("labels_file");
    const ParameterList given = config.Parameters(DescribePostprocessParams({}));
    RequireHead(given);
    const PostprocessParams params = ParsePostprocessParams(given);
    config.SettleTensors(PostprocessInputContracts(params), PostprocessOutputContracts(params));
    return std::make_unique<PostprocessModel>(config, families(), params, threads,
                                              ReadLabels(labels_file, config, params));
  }
};

}  // namespace

std::unique_ptr<Backend> CreateBackend() { return std::make_unique<PostprocessBackend>(); }

}  // namespace endcap::triton
