#include <memory>

#include "bls/cascade_model.h"
#include "bls/contracts.h"
#include "bls/settings.h"
#include "triton_util/model.h"

namespace endcap::triton {
namespace {

class BlsBackend final : public Backend {
 public:
  BlsBackend()
      : Backend("endcap_bls", {{"crops_total", "Detections that were cut out and classified"},
                               {"inner_calls_total", "Requests to other models of the server"}}) {}

  std::unique_ptr<Model> Load(ModelConfig& config) const override {
    CascadeSettings settings = ReadSettings(config);
    config.SettleTensors(CascadeInputContracts(), CascadeOutputContracts());
    return std::make_unique<CascadeModel>(config, families(), std::move(settings));
  }
};

}  // namespace

std::unique_ptr<Backend> CreateBackend() { return std::make_unique<BlsBackend>(); }

}  // namespace endcap::triton
