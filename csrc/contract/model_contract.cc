#include "common/fail.h"
#include "endcap/cascade.h"
#include "endcap/contract.h"

namespace endcap {

ModelContract ReadModelContract(std::string_view backend, ModelParameters parameters,
                                bool with_rois) {
  if (backend == "endcap_preprocess") {
    return ReadPreprocessSettings(std::move(parameters), with_rois).contract;
  }
  if (backend == "endcap_postprocess") {
    return ReadPostprocessSettings(std::move(parameters)).contract;
  }
  if (backend == "endcap_track") return ReadTrackSettings(std::move(parameters)).contract;
  if (backend == "endcap_bls") return ReadCascadeSettings(std::move(parameters)).contract;
  FailArgument("the parameters of backend '", backend,
               "' do not determine its tensors: there are endcap_preprocess, endcap_postprocess, "
               "endcap_track, endcap_bls");
}

}  // namespace endcap
