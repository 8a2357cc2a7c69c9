#include "postprocess/contracts.h"

#include <string>
#include <utility>

#include "triton_util/tensors.h"

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

std::string TopKText(const HeadParams& head) {
  return "top_k=" + std::to_string(head.ResolvedTopK());
}

TensorContract ClassContract(const TensorSpec& spec, const HeadParams& head) {
  if (spec.name == kClassProbabilities) {
    return MakeContract(spec, "num_classes=" + std::to_string(head.num_classes));
  }
  TensorContract contract = MakeContract(spec, TopKText(head));
  if (spec.name == kClassScores || spec.name == kClassIds) {
    contract.labels_belong_to = kClassProbabilities;
  }
  return contract;
}

TensorContract StringContract(std::string_view name, int64_t count, std::string determined_by) {
  TensorContract strings;
  strings.name = name;
  strings.forms = {{std::string(kConfigString), {count}}};
  strings.determined_by = std::move(determined_by);
  return strings;
}

}  // namespace

std::vector<TensorContract> PostprocessInputContracts(const PostprocessParams& params) {
  std::vector<TensorContract> contracts;
  for (const TensorSpec& spec : HeadInputs(params.head)) {
    TensorContract contract = MakeContract(spec, HeadText(params.head));
    for (const DType other : OtherDTypes(spec)) {
      contract.forms.push_back({ConfigName(other), contract.forms[0].dims});
    }
    contracts.push_back(std::move(contract));
  }
  contracts.push_back(Optional(MakeContract(kGeometryInput)));
  contracts.push_back(Optional(MakeContract(kStatusInput)));
  return contracts;
}

std::vector<TensorContract> PostprocessOutputContracts(const PostprocessParams& params,
                                                       bool labels_are_paths) {
  const bool classifies = IsClassification(params.head.family);
  const std::string rows = "max_detections=" + std::to_string(params.max_detections);
  std::vector<TensorContract> contracts;
  for (const TensorSpec& spec : PostprocessOutputs(params)) {
    contracts.push_back(classifies ? ClassContract(spec, params.head) : MakeContract(spec, rows));
  }
  const HeadParams& head = params.head;
  if (classifies) {
    contracts.push_back(StringContract(kClassLabels, head.ResolvedTopK(), TopKText(head)));
    if (labels_are_paths) {
      contracts.push_back(StringContract(kClassPaths, head.ResolvedTopK(), TopKText(head)));
    }
  }
  if (GivesRle(params)) {
    contracts.push_back(StringContract(kDetectionRle, params.max_detections, rows));
  }
  return contracts;
}

}  // namespace endcap::triton
