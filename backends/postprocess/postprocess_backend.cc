#include <memory>
#include <utility>

#include "endcap/contract.h"
#include "postprocess/labels.h"
#include "postprocess/postprocess_model.h"
#include "triton_util/model.h"

namespace endcap::triton {
namespace {

class PostprocessBackend final : public Backend {
 public:
  PostprocessBackend()
      : Backend(
            "endcap_postprocess",
            {{"truncated_total", "Images whose candidates max_candidates cut"},
             {"dropped_total", "Anchors with NaN or infinite numbers that on_nan drop left out"},
             {"detections_total", "Detections in the responses"}}) {}

  std::unique_ptr<Model> Load(ModelConfig& config) const override {
    const PostprocessSettings settings = ReadPostprocessSettings(config.parameters());
    Labels labels;
    if (settings.labels_file.has_value()) {
      labels = Labels(config.folder() / *settings.labels_file, settings.params.head.num_classes,
                      settings.labels_separator.value_or(""));
    }
    config.Complete(settings.contract);
    return std::make_unique<PostprocessModel>(config, families(), settings, std::move(labels));
  }
};

}  // namespace

std::unique_ptr<Backend> CreateBackend() { return std::make_unique<PostprocessBackend>(); }

}  // namespace endcap::triton
