#include "preprocess/contracts.h"

#include <string>

#include "triton_util/data_type.h"

namespace endcap::triton {

std::vector<TensorContract> PreprocessInputContracts() {
  TensorContract encoded;
  encoded.name = kEncoded;
  encoded.forms = {{std::string(kConfigString), {1}}, {std::string(kConfigUint8), {-1}}};
  return {encoded};
}

std::vector<TensorContract> PreprocessOutputContracts(const PreprocessParams& params) {
  std::vector<TensorContract> contracts;
  for (const TensorSpec& spec : PreprocessOutputs(params)) {
    contracts.push_back(
        ContractOf(spec, spec.name == "images" ? "size, color, layout or dtype" : ""));
  }
  return contracts;
}

}  // namespace endcap::triton
