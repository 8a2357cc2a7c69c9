#include <memory>
#include <vector>

#include "endcap/preprocess.h"
#include "preprocess/preprocess_model.h"
#include "triton_util/model.h"

namespace endcap::triton {
namespace {

std::vector<MetricInfo> Metrics() {
  std::vector<MetricInfo> metrics = AdmissionCounters::Families();
  metrics.push_back({"decode_seconds_total", "Time spent in the JPEG decoder, summed over images"});
  metrics.push_back({"damaged_total", "Damaged JPEGs decoded under damaged: accept"});
  return metrics;
}

class PreprocessBackend final : public Backend {
 public:
  PreprocessBackend() : Backend("endcap_preprocess", Metrics()) {}

  std::unique_ptr<Model> Load(ModelConfig& config) const override {
    const PreprocessSettings settings =
        ReadPreprocessSettings(config.parameters(), ListsTensor(config.json(), "input", kRois));
    config.Complete(settings.contract);
    return std::make_unique<PreprocessModel>(config, families(), settings);
  }
};

}  // namespace

std::unique_ptr<Backend> CreateBackend() { return std::make_unique<PreprocessBackend>(); }

}  // namespace endcap::triton
