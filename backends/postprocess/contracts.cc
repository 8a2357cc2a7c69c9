#include "postprocess/contracts.h"

#include <string>
#include <utility>

#include "endcap/geometry.h"
#include "triton_util/data_type.h"

namespace endcap::triton {
namespace {

std::string HeadText(const HeadParams& head) {
  return "head=" + std::string(HeadFamilyName(head.family)) +
         " or num_classes=" + std::to_string(head.num_classes);
}

TensorContract Optional(TensorContract contract) {
  contract.optional = true;
  return contract;
}

}  // namespace

std::vector<TensorContract> PostprocessInputContracts(const PostprocessParams& params) {
  const std::string half = ConfigName(DType::kFloat16);
  std::vector<TensorContract> contracts;
  for (const TensorSpec& spec : HeadInputs(params.head)) {
    TensorContract contract = ContractOf(spec, HeadText(params.head));
    if (spec.dtype == DType::kFloat32) contract.forms.push_back({half, contract.forms[0].dims});
    contracts.push_back(std::move(contract));
  }
  contracts.push_back(Optional(ContractOf({kGeometry, DType::kFloat32, {Geometry::kSize}, 1})));
  contracts.push_back(Optional(ContractOf({kStatus, DType::kInt32, {1}, 1})));
  return contracts;
}

std::vector<TensorContract> PostprocessOutputContracts(const PostprocessParams& params) {
  const bool classifies = params.head.family == HeadFamily::kClassification;
  const std::string rows = classifies ? "top_k=" + std::to_string(params.head.ResolvedTopK())
                                      : "max_detections=" + std::to_string(params.max_detections);
  std::vector<TensorContract> contracts;
  for (const TensorSpec& spec : PostprocessOutputs(params)) {
    contracts.push_back(ContractOf(spec, rows));
  }
  if (classifies) {
    TensorContract labels;
    labels.name = kClassLabels;
    labels.forms = {{std::string(kConfigString), {params.head.ResolvedTopK()}}};
    labels.determined_by = rows;
    contracts.push_back(std::move(labels));
  }
  return contracts;
}

}  // namespace endcap::triton
