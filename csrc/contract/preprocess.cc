#include "endcap/preprocess.h"

#include "endcap/contract.h"

namespace endcap {
namespace {

constexpr double kMaxQueueCost = 3.6e6;  // milliseconds: an hour

// The outputs of preprocess with regions: a row for each. `status` is a number for each region, not
// a tensor of one.
TensorContract MakeRowContract(const TensorSpec& spec, std::string determined_by) {
  TensorContract contract = MakeContract(spec, std::move(determined_by));
  std::vector<int64_t>& dims = contract.forms[0].dims;
  if (spec.name == kStatusInput.name) dims.clear();
  dims.insert(dims.begin(), -1);
  return contract;
}

}  // namespace

PreprocessSettings ReadPreprocessSettings(ModelParameters parameters, bool with_rois) {
  PreprocessSettings settings;
  settings.with_rois = with_rois;
  settings.threads = parameters.TakeCount("threads", 0);
  settings.max_queue_cost = parameters.TakeNumber(
      "max_queue_cost", 0, kMaxQueueCost,
      "the milliseconds of predicted work that may wait, up to 3600000, or 0 for no limit");
  settings.params = ParsePreprocessParams(parameters.Rest(DescribePreprocessParams({}), "preset"));

  ModelContract& contract = settings.contract;
  contract.parameters = DescribePreprocessParams(settings.params);
  contract.takes_batches = !with_rois;
  contract.inputs.push_back(MakeContract(kEncoded, kConfigString, {1}));
  contract.inputs[0].forms.push_back({std::string(kConfigUint8), {-1}});
  if (with_rois) {
    contract.inputs.push_back(MakeContract(kRois, ConfigName(DType::kFloat32), {-1, 4}));
  }
  for (const TensorSpec& spec : PreprocessOutputs(settings.params)) {
    const char* determined_by = spec.name == "images" ? "size, color, layout or dtype" : "";
    contract.outputs.push_back(with_rois ? MakeRowContract(spec, determined_by)
                                         : MakeContract(spec, determined_by));
  }
  return settings;
}

}  // namespace endcap
