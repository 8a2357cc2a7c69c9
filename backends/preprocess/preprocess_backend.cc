#include <memory>

#include "endcap/preprocess.h"
#include "preprocess/contracts.h"
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
    config.SettleTensors(PreprocessInputContracts(), PreprocessOutputContracts(params));
    return std::make_unique<PreprocessModel>(config, families(), params, threads);
  }
};

}  // namespace

std::unique_ptr<Backend> CreateBackend() { return std::make_unique<PreprocessBackend>(); }

}  // namespace endcap::triton
