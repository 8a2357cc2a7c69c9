#include "postprocess/postprocess_model.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "postprocess/contracts.h"

namespace endcap::triton {
namespace {

// An input beside the head. `keep` owns what the views point into.
InputItems SideInput(std::optional<InputTensor> tensor, const TensorSpec& spec, int64_t item_count,
                     std::vector<InputTensor>& keep) {
  if (!tensor.has_value()) return {};
  const InputItems items = keep.emplace_back(std::move(*tensor)).Items();
  const ConstTensorView& item = items.first();
  if (item.dtype != spec.dtype || item.size() != spec.shape[0] ||
      keep.back().item_count() != item_count) {
    throw Error(ErrorCode::kInvalidArgument,
                "input '" + std::string(spec.name) + "' is not " +
                    std::string(DTypeName(spec.dtype)) + " [" + std::to_string(spec.shape[0]) +
                    "] for each of the " + std::to_string(item_count) + " images of the head");
  }
  return items;
}

}  // namespace

PostprocessModel::PostprocessModel(const ModelConfig& config, const MetricFamilies& families,
                                   const PostprocessParams& params, int threads, Labels labels)
    : BatchModel(config, families),
      postprocessor_(params, threads),
      labels_(std::move(labels)),
      truncated_(families.NewCounter("truncated_total", metric_labels())),
      detections_(families.NewCounter("detections_total", metric_labels())) {
  LogParameters(DescribePostprocessParams(params));
}

void PostprocessModel::Prepare(JobType& job) {
  ReadInputs(job);
  AllocateOutputs(job);
}

void PostprocessModel::ReadInputs(JobType& job) {
  const Request& request = job.exchange->request;
  std::vector<InputItems> head;
  for (const TensorSpec& spec : HeadInputs(postprocessor_.params().head)) {
    job.tensors.push_back(request.GetInput(spec.name, batched()));
    head.push_back(job.tensors.back().Items());
    if (job.tensors.back().item_count() != job.tensors.front().item_count()) {
      throw Error(ErrorCode::kInvalidArgument, "the head's inputs differ in their batch dimension");
    }
  }
  const int64_t count = job.tensors.front().item_count();
  const InputItems geometry = SideInput(request.FindInput(kGeometryInput.name, batched()),
                                        kGeometryInput, count, job.tensors);
  const InputItems status =
      SideInput(request.FindInput(kStatusInput.name, batched()), kStatusInput, count, job.tensors);
  for (int64_t i = 0; i < count; ++i) {
    PostprocessInput& input = job.inputs.emplace_back();
    for (const InputItems& items : head) input.head.push_back(items[i]);
    input.geometry = geometry.Data<const float>(i);
    if (status.present()) input.status = *status.Data<const int32_t>(i);
  }
}

void PostprocessModel::AllocateOutputs(JobType& job) {
  const auto count = static_cast<int64_t>(job.inputs.size());
  const bool labels_wanted = job.exchange->request.WantsOutput(kClassLabels);
  std::vector<OutputItems> tensors;  // in the order of PostprocessOutputs
  for (const TensorSpec& spec : PostprocessOutputs(postprocessor_.params())) {
    OutputItems items = AddOutputIfWanted(*job.exchange, spec, count);
    if (!items.present() && labels_wanted && spec.name == kClassIds) {
      items = ScratchItems(spec, count, job.scratch);
    }
    tensors.push_back(items);
  }
  for (int64_t i = 0; i < count; ++i) {
    PostprocessOutput& output = job.outputs.emplace_back();
    for (const OutputItems& items : tensors) output.tensors.push_back(items[i]);
  }
}

std::vector<PostprocessItem> PostprocessModel::Run(std::span<const PostprocessInput> inputs,
                                                   std::span<const PostprocessOutput> outputs) {
  return postprocessor_.Run(inputs, outputs);
}

void PostprocessModel::Complete(JobType& job) {
  for (const PostprocessItem& item : job.items) {
    detections_.Add(item.num_detections);
    if (item.truncated) truncated_.Add(1);
  }
  if (job.exchange->request.WantsOutput(kClassLabels)) AddLabels(job);
}

void PostprocessModel::AddLabels(JobType& job) {
  const std::vector<TensorSpec> specs = PostprocessOutputs(postprocessor_.params());
  const auto ids_spec = std::find_if(specs.begin(), specs.end(),
                                     [](const TensorSpec& spec) { return spec.name == kClassIds; });
  const auto ids_index = static_cast<size_t>(ids_spec - specs.begin());
  std::vector<std::byte> strings;
  for (const PostprocessOutput& output : job.outputs) {
    const TensorView& ids = output.tensors[ids_index];
    labels_.AppendTo(strings,
                     {static_cast<const int32_t*>(ids.data), static_cast<size_t>(ids.size())});
  }
  std::vector<int64_t> shape{ids_spec->shape[0]};
  if (batched()) shape.insert(shape.begin(), static_cast<int64_t>(job.outputs.size()));
  void* memory =
      job.exchange->sink.AddOutput(kClassLabels, TRITONSERVER_TYPE_BYTES, shape, strings.size());
  std::copy(strings.begin(), strings.end(), static_cast<std::byte*>(memory));
}

}  // namespace endcap::triton
