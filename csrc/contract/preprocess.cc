#include "endcap/preprocess.h"

#include "common/fail.h"
#include "endcap/contract.h"

namespace endcap {
namespace {

constexpr double kMaxQueueCost = 3.6e6;  // milliseconds: an hour

}  // namespace

PreprocessSettings ReadPreprocessSettings(ModelParameters parameters, bool with_rois) {
  PreprocessSettings settings;
  settings.with_rois = with_rois;
  settings.threads = parameters.TakeCount("threads", 0);
  settings.max_queue_cost = parameters.TakeNumber(
      "max_queue_cost", 0, kMaxQueueCost,
      "the milliseconds of predicted work that may wait, up to 3600000, or 0 for no limit");
  settings.params = ParsePreprocessParams(parameters.Rest(DescribePreprocessParams({}), "preset"));

  const bool has_rows = with_rois || settings.params.slices();
  if (with_rois && settings.params.slices()) {
    FailArgument("tile is set in a config with input 'rois': give one of the two");
  }

  ModelContract& contract = settings.contract;
  contract.parameters = DescribePreprocessParams(settings.params);
  contract.takes_batches = !has_rows;
  contract.inputs.push_back(MakeContract(kEncoded, kConfigString, {1}));
  contract.inputs[0].forms.push_back({std::string(kConfigUint8), {-1}});
  if (with_rois) {
    contract.inputs.push_back(MakeContract(kRois, ConfigName(DType::kFloat32), {-1, 4}));
  }
  for (const TensorSpec& spec : PreprocessOutputs(settings.params)) {
    const char* determined_by = spec.name == "images" ? "size, color, layout or dtype" : "";
    TensorContract output = MakeContract(spec, determined_by);
    contract.outputs.push_back(has_rows ? MakeRowContract(output) : output);
  }
  return settings;
}

}  // namespace endcap
