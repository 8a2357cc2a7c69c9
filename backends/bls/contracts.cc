#include "bls/contracts.h"

#include <utility>

#include "triton_util/data_type.h"

namespace endcap::triton {
namespace {

constexpr int64_t kAnyCount = -1;

TensorContract NewContract(std::string_view name, std::string type, std::vector<int64_t> dims) {
  TensorContract contract;
  contract.name = name;
  contract.forms = {{std::move(type), std::move(dims)}};
  return contract;
}

}  // namespace

std::vector<TensorContract> CascadeInputContracts() {
  return {NewContract(kEncoded, std::string(kConfigString), {1})};
}

std::vector<TensorContract> CascadeOutputContracts() {
  std::vector<TensorContract> contracts;
  contracts.reserve(kDetectionOutputs.size() + 3);
  for (const TensorSpec& spec : kDetectionOutputs) contracts.push_back(MakeContract(spec));
  contracts.push_back(NewContract(kClassIds, ConfigName(DType::kInt32), {kAnyCount}));
  contracts.push_back(NewContract(kClassScores, ConfigName(DType::kFloat32), {kAnyCount}));
  contracts.push_back(NewContract(kClassLabels, std::string(kConfigString), {kAnyCount}));
  return contracts;
}

}  // namespace endcap::triton
