#include "preprocess/contracts.h"

#include <algorithm>
#include <string>
#include <utility>

#include "triton_util/data_type.h"

namespace endcap::triton {
namespace {

constexpr int64_t kAnyCount = -1;

std::vector<TensorContract> OutputContracts(const std::vector<TensorSpec>& specs) {
  std::vector<TensorContract> contracts;
  contracts.reserve(specs.size());
  for (const TensorSpec& spec : specs) {
    contracts.push_back(
        MakeContract(spec, spec.name == "images" ? "size, color, layout or dtype" : ""));
  }
  return contracts;
}

}  // namespace

std::vector<TensorContract> PreprocessInputContracts() {
  TensorContract encoded;
  encoded.name = kEncoded;
  encoded.forms = {{std::string(kConfigString), {1}}, {std::string(kConfigUint8), {-1}}};
  return {encoded};
}

std::vector<TensorContract> PreprocessOutputContracts(const PreprocessParams& params) {
  return OutputContracts(PreprocessOutputs(params));
}

std::vector<TensorContract> RoisInputContracts() {
  std::vector<TensorContract> contracts = PreprocessInputContracts();
  TensorContract rois;
  rois.name = kRois;
  rois.forms = {{ConfigName(DType::kFloat32), {kAnyCount, 4}}};
  contracts.push_back(std::move(rois));
  return contracts;
}

std::vector<TensorContract> RoisOutputContracts(const PreprocessParams& params) {
  return OutputContracts(PreprocessRoisOutputs(params, kAnyCount));
}

// `status` is a number for each region, not a tensor of one.
std::vector<TensorSpec> PreprocessRoisOutputs(const PreprocessParams& params, int64_t roi_count) {
  std::vector<TensorSpec> specs = PreprocessOutputs(params);
  for (TensorSpec& spec : specs) {
    if (spec.name != "status") {
      std::copy_backward(spec.shape.begin(), spec.shape.begin() + spec.rank,
                         spec.shape.begin() + spec.rank + 1);
      ++spec.rank;
    }
    spec.shape[0] = roi_count;
  }
  return specs;
}

}  // namespace endcap::triton
