#include <charconv>
#include <memory>
#include <string>
#include <vector>

#include "endcap/preprocess.h"
#include "preprocess/preprocess_model.h"
#include "triton_util/model.h"

namespace endcap::triton {
namespace {

// The most milliseconds that max_queue_cost may be: an hour.
constexpr double kMostQueueCost = 3.6e6;

double ParseQueueCost(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  // Also false for NaN.
  if (error != std::errc() || stop != end || !(value >= 0 && value <= kMostQueueCost)) {
    throw Error(ErrorCode::kInvalidArgument,
                "max_queue_cost is '" + text +
                    "': give the milliseconds of predicted work that may wait, up to 3600000, or 0 "
                    "for no limit");
  }
  return value;
}

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
    PreprocessSettings settings;
    settings.threads = ParseCount("threads", config.TakeParameter("threads").value_or("0"));
    settings.max_queue_cost = ParseQueueCost(config.TakeParameter("max_queue_cost").value_or("0"));
    const PreprocessParams params =
        ParsePreprocessParams(config.Parameters(DescribePreprocessParams({}), "preset"));
    const bool with_rois = config.HasInput(kRois);
    if (with_rois) RefuseBatches(config);
    config.CompleteTensors(PreprocessModel::InputContracts(with_rois),
                           PreprocessModel::OutputContracts(params, with_rois));
    return std::make_unique<PreprocessModel>(config, families(), params, settings);
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
