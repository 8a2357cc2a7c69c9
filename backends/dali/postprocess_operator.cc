#include "postprocess_operator.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>

#include "dali/core/format.h"
#include "parameters.h"
#include "tensors.h"

namespace endcap::operators {
namespace {

using ::dali::CPUBackend;
using ::dali::GPUBackend;
using ::dali::OpSpec;
using ::dali::TensorListShape;
using ::dali::TensorShape;
using ::dali::Workspace;

constexpr int64_t kGeometryLength = 8;
constexpr std::string_view kStatusName = "status";

PostprocessorHandle NewHandle(const OpSpec& spec, int32_t device) {
  return NewPostprocessor(GivenParameters(spec, PostprocessTable(), {}), device, 1);
}

bool HasOutput(std::span<const endcap_tensor_spec> outputs, std::string_view name) {
  return std::any_of(outputs.begin(), outputs.end(),
                     [name](const endcap_tensor_spec& output) { return name == output.name; });
}

// Returns the core's outputs that the operator has: `status` last, and only if requested.
std::vector<size_t> WantedOutputs(std::span<const endcap_tensor_spec> outputs, bool with_status) {
  if (HasOutput(outputs, "mask_size") && !HasOutput(outputs, "detection_masks")) {
    throw std::invalid_argument(
        "masks in pixels of the source image are no tensors of one shape: give "
        "mask_resolution=\"prototype\" or \"input\"");
  }
  std::vector<size_t> wanted;
  std::vector<size_t> status;
  for (size_t i = 0; i < outputs.size(); ++i) {
    (outputs[i].name == kStatusName ? status : wanted).push_back(i);
  }
  if (with_status) wanted.insert(wanted.end(), status.begin(), status.end());
  return wanted;
}

endcap_tensor ViewInput(const char* name, const Workspace& ws, int input, int sample) {
  const auto view = [&](const auto& samples, bool on_gpu) {
    endcap_tensor tensor = MakeView(name, samples.raw_tensor(sample), samples.type(),
                                    samples.tensor_shape(sample), on_gpu);
    if (tensor.rank == 0) {  // a scalar becomes a tensor of 1 element
      tensor.rank = 1;
      tensor.shape[0] = 1;
    }
    return tensor;
  };
  return ws.InputIsType<GPUBackend>(input) ? view(ws.Input<GPUBackend>(input), true)
                                           : view(ws.Input<CPUBackend>(input), false);
}

void* OutputData(Workspace& ws, int output, int sample) {
  return ws.OutputIsType<GPUBackend>(output)
             ? ws.Output<GPUBackend>(output).raw_mutable_tensor(sample)
             : ws.Output<CPUBackend>(output).raw_mutable_tensor(sample);
}

std::vector<int32_t> ReadStatus(const ::dali::TensorList<CPUBackend>& samples, int count) {
  std::vector<int32_t> status(count);
  for (int i = 0; i < count; ++i) {
    if (samples.type() != DALI_INT32 || ::dali::volume(samples.tensor_shape(i)) != 1) {
      throw std::invalid_argument(
          "status is not int32 [1] for each sample: give what fn.endcap.preprocess gives");
    }
    status[i] = samples.tensor<int32_t>(i)[0];
  }
  return status;
}

}  // namespace

int CountOutputs(const OpSpec& spec) {
  const PostprocessorHandle handle = NewHandle(spec, ENDCAP_CPU);
  const bool with_status = spec.GetArgument<bool>("output_status");
  return static_cast<int>(WantedOutputs(GetOutputs(handle.get()), with_status).size());
}

PostprocessOperator::PostprocessOperator(const OpSpec& spec, bool on_gpu)
    : StatelessOperator(spec),
      on_gpu_(on_gpu),
      with_status_(spec.GetArgument<bool>("output_status")),
      handle_(NewHandle(spec, on_gpu ? spec.GetArgument<int>("device_id") : ENDCAP_CPU)),
      inputs_(GetInputs(handle_.get())),
      outputs_(GetOutputs(handle_.get())),
      wanted_(WantedOutputs(outputs_, with_status_)),
      geometry_input_(static_cast<int>(inputs_.size())),
      status_input_(geometry_input_ + 1) {
  for (const endcap_tensor_spec& output : outputs_) {
    if (output.shape[0] >= 0) continue;
    throw std::invalid_argument(::dali::make_string(
        "head=\"", spec.GetArgument<std::string>("head"), "\" gives ", output.name,
        ", whose size DALI cannot know before it runs: use the backend endcap_postprocess"));
  }
  const int given = spec.NumRegularInput();
  if (given >= geometry_input_ && given <= status_input_ + 1) return;
  std::string names;
  for (const endcap_tensor_spec& input : inputs_) names.append(input.name).append(", ");
  throw std::invalid_argument(::dali::make_string(
      given, " inputs do not fit head=\"", spec.GetArgument<std::string>("head"), "\": give ",
      names, "and perhaps geometry and status"));
}

bool PostprocessOperator::SetupImpl(std::vector<::dali::OutputDesc>& descriptions,
                                    const Workspace& ws) {
  const int count = ws.GetInputBatchSize(0);
  descriptions.clear();
  for (const size_t i : wanted_) {
    const TensorShape<> shape = ToDaliShape(outputs_[i]);
    TensorListShape<> shapes(count, shape.size());
    for (int sample = 0; sample < count; ++sample) shapes.set_tensor_shape(sample, shape);
    descriptions.push_back({shapes, ToDaliType(outputs_[i].dtype)});
  }
  return true;
}

void PostprocessOperator::RunImpl(Workspace& ws) {
  Batch batch = Prepare(ws);
  if (batch.items.empty()) return;
  std::vector<SampleResult> results(batch.items.size());
  if (on_gpu_) {
    RunBatch(ws, batch, results);
  } else {
    RunSamples(ws, batch, results);
  }
  CheckResults(results, !with_status_);
}

void PostprocessOperator::RunSamples(Workspace& ws, Batch& batch,
                                     std::vector<SampleResult>& results) {
  auto& pool = ws.GetThreadPool();
  for (size_t i = 0; i < results.size(); ++i) {
    pool.AddWork([&, i](int) {
      endcap_postprocess_item& item = batch.items[i];
      const endcap_status call = endcap_postprocessor_run(handle_.get(), &item, 1, nullptr, 1);
      results[i] = {call, item.item_status, call != 0 ? endcap_last_error() : endcap_item_error(0)};
    });
  }
  pool.RunAll();
}

// Synchronises with the GPU only if a bad head must end the pipeline.
void PostprocessOperator::RunBatch(Workspace& ws, Batch& batch,
                                   std::vector<SampleResult>& results) {
  const int32_t wait = with_status_ ? 0 : 1;
  Check(endcap_postprocessor_run(handle_.get(), batch.items.data(), batch.items.size(), ws.stream(),
                                 wait));
  for (size_t i = 0; wait != 0 && i < results.size(); ++i) {
    results[i] = {0, batch.items[i].item_status, endcap_item_error(i)};
  }
}

PostprocessOperator::Batch PostprocessOperator::Prepare(Workspace& ws) const {
  const int count = ws.GetInputBatchSize(0);
  Batch batch;
  batch.heads.resize(count);
  batch.outputs.resize(count);
  batch.items.resize(count);
  const std::vector<int32_t> status = Statuses(ws, count);
  for (int sample = 0; sample < count; ++sample) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      batch.heads[sample].push_back(ViewInput(inputs_[i].name, ws, static_cast<int>(i), sample));
    }
    batch.outputs[sample] = Outputs(ws, sample);
    endcap_postprocess_item& item = batch.items[sample];
    item.head = batch.heads[sample].data();
    item.outputs = batch.outputs[sample].data();
    item.status = status[sample];
    SetGeometry(ws, sample, item);
  }
  return batch;
}

std::vector<endcap_tensor> PostprocessOperator::Outputs(Workspace& ws, int sample) const {
  std::vector<endcap_tensor> views(outputs_.size());
  for (size_t i = 0; i < outputs_.size(); ++i) {
    endcap_tensor& view = views[i];
    view.dtype = outputs_[i].dtype;
    view.rank = outputs_[i].rank;
    std::copy_n(outputs_[i].shape, view.rank, view.shape);
    view.on_gpu = on_gpu_ ? 1 : 0;
  }
  for (size_t i = 0; i < wanted_.size(); ++i) {
    views[wanted_[i]].data = OutputData(ws, static_cast<int>(i), sample);
  }
  return views;
}

void PostprocessOperator::SetGeometry(const Workspace& ws, int sample,
                                      endcap_postprocess_item& item) const {
  if (ws.NumInput() <= geometry_input_) return;
  const endcap_tensor view = ViewInput("geometry", ws, geometry_input_, sample);
  if (view.dtype != ENDCAP_FLOAT32 || view.rank != 1 || view.shape[0] != kGeometryLength) {
    throw std::invalid_argument(
        "geometry is not float [8] for each sample: give what fn.endcap.preprocess gives");
  }
  item.geometry = static_cast<const float*>(view.data);
  item.geometry_on_gpu = view.on_gpu;
}

// The core reads them in host memory; synchronises with the GPU if they are there.
std::vector<int32_t> PostprocessOperator::Statuses(const Workspace& ws, int count) const {
  if (ws.NumInput() <= status_input_) return std::vector<int32_t>(count, 0);
  if (!ws.InputIsType<GPUBackend>(status_input_)) {
    return ReadStatus(ws.Input<CPUBackend>(status_input_), count);
  }
  ::dali::TensorList<CPUBackend> on_host;
  on_host.Copy(ws.Input<GPUBackend>(status_input_), ws.stream());
  ::dali::AccessOrder::host().wait(ws.stream());
  return ReadStatus(on_host, count);
}

}  // namespace endcap::operators
