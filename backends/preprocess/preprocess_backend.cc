#include <memory>
#include <string>

#include "endcap/preprocess.h"
#include "preprocess/preprocess_model.h"
#include "triton_util/model.h"

namespace endcap::triton {
namespace {

class PreprocessBackend final : public Backend {
 public:
  PreprocessBackend()
      : Backend("endcap_preprocess",
                {{"decode_seconds_total", "Time spent in the JPEG decoder, summed over images"}}) {}

  std::unique_ptr<Model> Load(ModelConfig& config) const override {
    // The one parameter that is the backend's own.
    const int threads = ParseCount("threads", config.TakeParameter("threads").value_or("0"));
    const PreprocessParams params =
        ParsePreprocessParams(config.Parameters(DescribePreprocessParams({}), "preset"));
    const bool with_rois = config.HasInput(kRois);
    if (with_rois) RefuseBatches(config);
    config.CompleteTensors(PreprocessModel::InputContracts(with_rois),
                           PreprocessModel::OutputContracts(params, with_rois));
    return std::make_unique<PreprocessModel>(config, families(), params, threads);
  }

 private:
  static void RefuseBatches(const ModelConfig& config) {
    if (config.max_batch_size() == 0) return;
    throw Error(ErrorCode::kInvalidArgument,
                "max_batch_size is " + std::to_string(config.max_batch_size()) +
                    " in a config with input 'rois': images have different numbers of regions, so "
                    "their tensors have no shape in common; give max_batch_size: 0");
  }
};

}  // namespace

std::unique_ptr<Backend> CreateBackend() { return std::make_unique<PreprocessBackend>(); }

}  // namespace endcap::triton
