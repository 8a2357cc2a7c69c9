#include "postprocess/postprocess_model.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "triton_util/tensors.h"

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

// Whether the class ids are needed as text.
bool WantsLabels(const Request& request) {
  return request.WantsOutput(kClassLabels) || request.WantsOutput(kClassPaths);
}

// The size that the maps of a request's images share; 0, 0 where no image has one, or where they
// differ and the request wants the maps in another form, too: an ensemble requests all of a model.
MaskSize FindMapSize(const PostprocessParams& params, std::span<const PostprocessInput> inputs,
                     const Request& request) {
  MaskSize size;
  for (const PostprocessInput& input : inputs) {
    if (input.status != 0) continue;
    const MaskSize other = GetClassMapSize(params, input);
    if (size.pixels() != 0 && (other.height != size.height || other.width != size.width)) {
      if (request.WantsOutput(kClassMapPng) || request.WantsOutput(RleName(params))) return {};
      throw Error(ErrorCode::kInvalidArgument,
                  "the class maps of the request's images differ in size: request the output "
                  "class_map_png, or send one image in a request");
    }
    size = other;
  }
  return size;
}

// The class ids of one image.
std::vector<int32_t> OnHost(const TensorView& ids, const ExecutionContext& execution_context) {
  std::vector<int32_t> values(static_cast<size_t>(ids.size()));
  if (ids.device == Device::kCpu) {
    std::memcpy(values.data(), ids.data, ids.size_bytes());
  } else {
    CopyCuda(values.data(), ids.data, ids.size_bytes(), execution_context.target());
    SynchronizeCuda(execution_context.target());
  }
  return values;
}

}  // namespace

PostprocessModel::PostprocessModel(const ModelConfig& config, const MetricFamilies& families,
                                   const PostprocessSettings& settings, Labels labels)
    : CoreModel(config, families),
      params_(settings.params),
      threads_(settings.threads),
      labels_(std::move(labels)),
      truncated_(families.NewCounter("truncated_total", metric_labels())),
      dropped_(families.NewCounter("dropped_total", metric_labels())),
      detections_(families.NewCounter("detections_total", metric_labels())) {
  LogParameters(settings.contract.parameters);
}

std::unique_ptr<Instance> PostprocessModel::NewInstance(const ExecutionContext& execution_context) {
  const DeviceId device = execution_context.device();
  const int key = execution_context.on_gpu() ? device.id : SharedByDevice<Postprocessor>::kCpu;
  auto postprocessor = postprocessors_.Get(
      key, [&] { return std::make_shared<Postprocessor>(params_, device, threads_); });
  return std::make_unique<CoreInstance>(
      execution_context,
      [postprocessor, stream = execution_context.stream()](auto inputs, auto outputs) {
        return postprocessor->Run(inputs, outputs, stream);
      });
}

void PostprocessModel::Read(JobType& job, const ExecutionContext& execution_context) {
  ReadInputs(job, execution_context);
  AllocateOutputs(job, execution_context);
}

void PostprocessModel::ReadInputs(JobType& job, const ExecutionContext& execution_context) {
  const Request& request = job.pending->request;
  const bool merges = params_.merge != Merge::kNone;
  const InputReading in_place{batched() || merges, execution_context, true};
  const InputReading on_host{batched() || merges, execution_context, false};
  std::vector<InputItems> head;
  for (const TensorSpec& spec : HeadInputs(params_.head)) {
    job.tensors.push_back(request.GetInput(spec.name, in_place));
    head.push_back(job.tensors.back().Items());
    if (job.tensors.back().item_count() != job.tensors.front().item_count()) {
      throw Error(ErrorCode::kInvalidArgument, "the head's inputs differ in their batch dimension");
    }
  }
  const int64_t count = job.tensors.front().item_count();
  const InputItems geometry = SideInput(request.FindInput(kGeometryInput.name, in_place),
                                        kGeometryInput, count, job.tensors);
  const InputItems status =
      SideInput(request.FindInput(kStatusInput.name, on_host), kStatusInput, count, job.tensors);
  for (int64_t i = 0; i < count; ++i) {
    PostprocessInput& input = job.inputs.emplace_back();
    for (const InputItems& items : head) input.head.push_back(items[i]);
    input.geometry = geometry.Data<const float>(i);
    input.geometry_device = geometry.first().device;
    if (status.present()) input.status = *status.Data<const int32_t>(i);
  }
  if (!merges) return;
  PostprocessInput image;
  image.tiles = std::move(job.inputs);
  job.inputs.clear();
  job.inputs.push_back(std::move(image));
}

void PostprocessModel::AllocateOutputs(JobType& job, const ExecutionContext& execution_context) {
  const auto count = static_cast<int64_t>(job.inputs.size());
  const bool labels_wanted = WantsLabels(job.pending->request);
  RequestOutputs& results = job.results;
  std::vector<TensorSpec> specs = PostprocessOutputs(params_);
  const bool is_semantic = IsSemantic(params_.head.family);
  if (is_semantic && job.pending->request.WantsOutput(kClassMap)) {
    const MaskSize size = FindMapSize(params_, job.inputs, job.pending->request);
    specs[0].shape = {size.height, size.width};
  }
  for (const TensorSpec& spec : specs) {
    const bool needed = labels_wanted && spec.name == kClassIds;
    // Clients read them, so that host memory is preferred on a GPU, too.
    results.Add(spec, count, {execution_context.memory(), {}, needed}, counters());
  }
  results.Allocate();
  if (GivesRle(params_) && job.pending->request.WantsOutput(RleName(params_))) {
    job.strings.resize(job.inputs.size());
  }
  if (is_semantic && job.pending->request.WantsOutput(kClassMapPng)) {
    job.files.resize(job.inputs.size(), std::vector<std::string>(1));
  }
  for (int64_t i = 0; i < count; ++i) {
    PostprocessOutput& output = job.outputs.emplace_back();
    if (!job.strings.empty()) output.rle = &job.strings[static_cast<size_t>(i)];
    if (!job.files.empty()) output.png = &job.files[static_cast<size_t>(i)][0];
    for (size_t n = 0; n < specs.size(); ++n) output.tensors.push_back(results[n][i]);
  }
}

void PostprocessModel::Trace(const PostprocessItem& item, RequestTrace& trace) const noexcept {
  const HeadFamily family = params_.head.family;
  int64_t start_ns = item.start_ns;
  const auto add = [&](std::string_view name, int64_t duration_ns) {
    trace.AddSpan({name, start_ns, duration_ns});
    start_ns += duration_ns;
  };
  add(IsSemantic(family)         ? "class_map"
      : IsClassification(family) ? "classify"
                                 : "box_decode",
      item.box_decode_ns);
  add("nms", item.nms_ns);
  add(GivesRle(params_) ? "masks" : "output", item.output_ns);
}

void PostprocessModel::Complete(JobType& job, const ExecutionContext& execution_context) {
  for (const PostprocessItem& item : job.items) {
    detections_.Add(item.num_detections);
    if (item.truncated) truncated_.Add(1);
    dropped_.Add(item.dropped);
  }
  if (WantsLabels(job.pending->request)) AddLabels(job, execution_context);
  if (!job.strings.empty()) {
    AddRows(job, RleName(params_), CountRles(params_), job.strings, execution_context);
  }
  if (!job.files.empty()) AddRows(job, kClassMapPng, 1, job.files, execution_context);
}

void PostprocessModel::AddLabels(JobType& job, const ExecutionContext& execution_context) {
  const std::vector<TensorSpec> specs = PostprocessOutputs(params_);
  const auto ids_spec = std::find_if(specs.begin(), specs.end(),
                                     [](const TensorSpec& spec) { return spec.name == kClassIds; });
  const auto ids_index = static_cast<size_t>(ids_spec - specs.begin());
  const Request& request = job.pending->request;
  const bool names_wanted = request.WantsOutput(kClassLabels);
  const bool paths_wanted = request.WantsOutput(kClassPaths);
  std::vector<std::byte> names;
  std::vector<std::byte> paths;
  for (const PostprocessOutput& output : job.outputs) {
    const std::vector<int32_t> ids = OnHost(output.tensors[ids_index], execution_context);
    if (names_wanted) labels_.AppendNames(names, ids);
    if (paths_wanted) labels_.AppendPaths(paths, ids);
  }
  const int64_t top_k = ids_spec->shape[0];
  if (names_wanted) AddStrings(job, kClassLabels, top_k, names, execution_context);
  if (paths_wanted) AddStrings(job, kClassPaths, top_k, paths, execution_context);
}

void PostprocessModel::AddRows(JobType& job, std::string_view name, int rows,
                               std::span<const std::vector<std::string>> items,
                               const ExecutionContext& execution_context) {
  std::vector<std::byte> strings;
  for (const std::vector<std::string>& item : items) {
    for (const std::string& row : item) AppendString(strings, row);
    for (size_t row = item.size(); row < static_cast<size_t>(rows); ++row)
      AppendString(strings, {});
  }
  AddStrings(job, name, rows, strings, execution_context);
}

void PostprocessModel::AddStrings(JobType& job, std::string_view name, int64_t count,
                                  std::span<const std::byte> strings,
                                  const ExecutionContext& execution_context) {
  std::vector<int64_t> shape{count};
  if (batched()) shape.insert(shape.begin(), static_cast<int64_t>(job.outputs.size()));
  const OutputMemory memory =
      job.pending->sink.AddOutput(name, TRITONSERVER_TYPE_BYTES, shape, strings.size(), {});
  WriteOutput(strings, memory.data, memory.place, execution_context);
}

}  // namespace endcap::triton
