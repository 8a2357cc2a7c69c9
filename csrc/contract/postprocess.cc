#include "endcap/postprocess.h"

#include <algorithm>

#include "common/fail.h"
#include "endcap/contract.h"

namespace endcap {
namespace {

std::string Says(std::string_view name, int value) {
  return std::string(name) + "=" + std::to_string(value);
}

std::vector<TensorContract> MakeHeadContracts(const HeadParams& head) {
  const std::string determined_by = "head=" + std::string(HeadFamilyName(head.family)) + " or " +
                                    Says("num_classes", head.num_classes);
  std::vector<TensorContract> contracts;
  for (const TensorSpec& spec : HeadInputs(head)) {
    TensorContract& contract = contracts.emplace_back(MakeContract(spec, determined_by));
    for (const DType other : OtherDTypes(spec)) {
      contract.forms.push_back({ConfigName(other), contract.forms[0].dims});
    }
  }
  return contracts;
}

std::vector<TensorContract> MakeDetectionContracts(const PostprocessParams& params) {
  const bool is_semantic = IsSemantic(params.head.family);
  const std::string rows = is_semantic ? Says("num_classes", params.head.num_classes)
                                       : Says("max_detections", params.max_detections);
  std::vector<TensorContract> contracts;
  for (const TensorSpec& spec : PostprocessOutputs(params)) {
    contracts.push_back(MakeContract(spec, rows));
  }
  if (GivesRle(params)) {
    contracts.push_back(MakeContract(RleName(params), kConfigString, {CountRles(params)}, rows));
  }
  if (is_semantic) contracts.push_back(MakeContract(kClassMapPng, kConfigString, {1}));
  return contracts;
}

std::vector<TensorContract> MakeClassContracts(const PostprocessParams& params, bool with_paths) {
  const int top_k = params.head.ResolvedTopK();
  std::vector<TensorContract> contracts;
  for (const TensorSpec& spec : PostprocessOutputs(params)) {
    const bool all = spec.name == kClassProbabilities;
    TensorContract& contract = contracts.emplace_back(MakeContract(
        spec, all ? Says("num_classes", params.head.num_classes) : Says("top_k", top_k)));
    if (spec.name == kClassScores || spec.name == kClassIds) {
      contract.labels_belong_to = kClassProbabilities;
    }
  }
  for (const std::string_view name : {kClassLabels, kClassPaths}) {
    if (name == kClassPaths && !with_paths) continue;
    contracts.push_back(MakeContract(name, kConfigString, {top_k}, Says("top_k", top_k)));
  }
  return contracts;
}

void CheckLabels(const PostprocessSettings& settings) {
  const HeadParams& head = settings.params.head;
  if (settings.labels_separator.has_value() && !settings.labels_file.has_value()) {
    FailArgument(
        "labels_separator was given without labels_file: give the file whose lines it separates, "
        "or leave it out");
  }
  if (settings.labels_file.has_value() && !IsClassification(head.family)) {
    FailArgument("labels_file was given with head=", HeadFamilyName(head.family),
                 ": it is for head=classification only");
  }
  if (settings.labels_separator.has_value() && settings.labels_separator->empty()) {
    FailArgument(
        "labels_separator is empty: give the text between the parts of a line, for example /, or "
        "leave it out");
  }
}

}  // namespace

PostprocessSettings ReadPostprocessSettings(ModelParameters parameters) {
  PostprocessSettings settings;
  settings.threads = parameters.TakeCount("threads", 0);
  settings.labels_file = parameters.Take("labels_file");
  settings.labels_separator = parameters.Take("labels_separator");
  const ParameterList given = parameters.Rest(DescribePostprocessParams({}));
  if (std::ranges::find(given, "head", &ParameterList::value_type::first) == given.end()) {
    FailArgument(
        "parameter 'head' is missing: name the family of the model's head, for example yolov8");
  }
  settings.params = ParsePostprocessParams(given);
  CheckLabels(settings);

  const PostprocessParams& params = settings.params;
  ModelContract& contract = settings.contract;
  contract.parameters = DescribePostprocessParams(params);
  contract.inputs = MakeHeadContracts(params.head);
  for (const TensorSpec& spec : {kGeometryInput, kStatusInput}) {
    contract.inputs.emplace_back(MakeContract(spec)).optional = true;
  }
  if (params.merge != Merge::kNone) {
    contract.takes_batches = false;
    for (TensorContract& input : contract.inputs) {
      input = MakeRowContract(std::move(input));
      input.optional = input.name == kStatusInput.name;
    }
  }
  contract.outputs = IsClassification(params.head.family)
                         ? MakeClassContracts(params, settings.labels_separator.has_value())
                         : MakeDetectionContracts(params);
  return settings;
}

}  // namespace endcap
