#include "endcap/contract.h"
#include "endcap/tracking.h"

namespace endcap {

TrackSettings ReadTrackSettings(ModelParameters parameters) {
  TrackSettings settings;
  settings.max_sequences = parameters.TakeCount("max_sequences", settings.max_sequences, 1);
  settings.params = ParseTrackingParams(parameters.Rest(DescribeAllTrackingParams(), "preset"));
  settings.contract.parameters = DescribeTrackingParams(settings.params);
  settings.contract.takes_sequences = true;
  for (const TensorSpec& spec : kTrackInputs) {
    settings.contract.inputs.push_back(MakeContract(spec));
  }
  settings.contract.inputs.emplace_back(MakeContract(kTimestamp, "TYPE_FP64", {1})).optional = true;
  settings.contract.outputs = {MakeContract(kTrackIds), MakeContract(kFrameIndex)};
  return settings;
}

}  // namespace endcap
