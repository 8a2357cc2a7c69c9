#include "onnx/network_run.h"

#include <algorithm>
#include <array>
#include <utility>

#include "triton_util/response.h"
#include "triton_util/tensors.h"

namespace endcap::triton {
namespace {

size_t CountElements(std::span<const int64_t> shape) {
  size_t count = 1;
  for (const int64_t dim : shape) count *= static_cast<size_t>(dim);
  return count;
}

[[noreturn]] void RejectInput(const std::string& name, const std::string& what) {
  throw Error(ErrorCode::kInvalidArgument, "input '" + name + "' " + what);
}

// ONNX Runtime's results are undefined for a bool that is neither 0 nor 1.
void CheckBooleans(const InputTensor& input) {
  if (input.place().on_gpu()) return;
  const auto is_bool = [](std::byte value) { return value <= std::byte{1}; };
  if (std::ranges::all_of(input.bytes(), is_bool)) return;
  RejectInput(input.name(), "is BOOL and has a byte that is neither 0 nor 1");
}

void CheckInput(const InputTensor& input, const NetworkTensor& tensor) {
  if (input.data_type() != tensor.type->triton) {
    RejectInput(input.name(),
                "is not " + std::string(tensor.type->config_name) + ", which the network takes");
  }
  if (tensor.type->is_string()) return;
  const size_t elements =
      CountElements(input.item_shape()) * static_cast<size_t>(input.item_count());
  if (input.bytes().size() != elements * tensor.type->size) {
    RejectInput(input.name(), "has " + std::to_string(input.bytes().size()) +
                                  " bytes where its shape and type ask for " +
                                  std::to_string(elements * tensor.type->size));
  }
  if (tensor.type->triton == TRITONSERVER_TYPE_BOOL) CheckBooleans(input);
}

// Returns the shape of an input for ONNX Runtime; config.pbtxt has [1] for a scalar.
std::vector<int64_t> MakeInputShape(const NetworkTensor& tensor, const InputTensor& input,
                                    bool batched, int64_t item_count) {
  std::vector<int64_t> shape = input.item_shape();
  if (batched) shape.insert(shape.begin(), item_count);
  if (tensor.dims.empty() && CountElements(shape) == 1) shape.clear();
  return shape;
}

// Returns the shape of an output if it is known before the run. It is not for a network with inputs
// of variable shape: such networks often declare the output shape for one input size.
std::optional<std::vector<int64_t>> PredictShape(const NetworkTensor& tensor,
                                                 std::span<const NetworkTensor> inputs,
                                                 bool batched, int64_t item_count) {
  const auto varies = [batched](const NetworkTensor& input) {
    const auto first = input.dims.begin() + (batched ? 1 : 0);
    return std::find(first, input.dims.end(), -1) != input.dims.end();
  };
  if (std::ranges::any_of(inputs, varies)) return std::nullopt;
  std::vector<int64_t> shape = tensor.dims;
  if (batched) shape.front() = item_count;
  if (std::ranges::find(shape, -1) != shape.end()) return std::nullopt;
  return shape;
}

std::vector<int64_t> MakeResponseShape(std::span<const int64_t> shape) {
  if (shape.empty()) return {1};
  return {shape.begin(), shape.end()};
}

std::vector<int64_t> ReadShape(const OnnxRuntime& runtime, const OrtValue* value) {
  const OrtApi& api = runtime.api();
  OrtTensorTypeAndShapeInfo* raw = nullptr;
  runtime.Check(api.GetTensorTypeAndShape(value, &raw));
  const OrtHandle<OrtTensorTypeAndShapeInfo> info(raw, api.ReleaseTensorTypeAndShapeInfo);
  size_t rank = 0;
  runtime.Check(api.GetDimensionsCount(raw, &rank));
  std::vector<int64_t> shape(rank);
  runtime.Check(api.GetDimensions(raw, shape.data(), rank));
  return shape;
}

// Adds an output to the response and copies it there.
void CopyToResponse(NetworkRequest& request, const NetworkTensor& tensor,
                    std::span<const int64_t> shape, Bytes bytes,
                    const ExecutionContext& execution_context) {
  const MemoryPlace place =
      request.pending->request.OutputPlace(tensor.name, bytes.size(), MemoryPlace{});
  const OutputMemory memory = request.pending->sink.AddOutput(
      tensor.name, tensor.type->triton, MakeResponseShape(shape), bytes.size(), place);
  WriteOutput(bytes, memory.data, memory.place, execution_context);
}

}  // namespace

NetworkRequest ReadNetworkRequest(PendingRequest& pending, const SessionPair& sessions,
                                  const InputReading& reading) {
  NetworkRequest request{&pending, {}, {}, 1};
  for (const NetworkTensor& tensor : sessions.inputs()) {
    InputTensor input = pending.request.GetInput(tensor.name, reading);
    CheckInput(input, tensor);
    request.item_count = input.item_count();
    request.inputs.push_back(std::move(input));
  }
  for (const NetworkTensor& tensor : sessions.outputs()) {
    request.wanted.push_back(pending.request.WantsOutput(tensor.name));
  }
  return request;
}

bool HaveEqualShapes(const NetworkRequest& a, const NetworkRequest& b) {
  return std::ranges::equal(a.inputs, b.inputs, [](const InputTensor& x, const InputTensor& y) {
    return x.item_shape() == y.item_shape();
  });
}

NetworkRun::NetworkRun(const RunContext& context, std::span<NetworkRequest> requests)
    : context_(context), requests_(requests), binding_(nullptr, nullptr) {
  for (const NetworkRequest& request : requests) item_count_ += request.item_count;
}

void NetworkRun::Run() {
  const OnnxRuntime& runtime = context_.runtime;
  OrtIoBinding* raw = nullptr;
  runtime.Check(runtime.api().CreateIoBinding(context_.session, &raw));
  binding_ = {raw, runtime.api().ReleaseIoBinding};
  for (size_t i = 0; i < context_.sessions.inputs().size(); ++i) BindInput(i);
  for (size_t i = 0; i < context_.sessions.outputs().size(); ++i) {
    const auto wants = [i](const NetworkRequest& request) { return request.wanted[i]; };
    if (std::ranges::any_of(requests_, wants)) BindOutput(context_.sessions.outputs()[i]);
  }
  // ONNX Runtime rejects a run without outputs.
  if (outputs_.empty()) return;
  runtime.Check(runtime.api().RunWithBinding(context_.session, context_.options, binding_.get()));
  TakeOutputs();
}

void NetworkRun::BindInput(size_t index) {
  const OnnxRuntime& runtime = context_.runtime;
  const NetworkTensor& tensor = context_.sessions.inputs()[index];
  const InputTensor& first = requests_.front().inputs[index];
  const std::vector<int64_t> shape = MakeInputShape(tensor, first, context_.batched, item_count_);
  OrtHandle<OrtValue> value(nullptr, nullptr);
  if (tensor.type->is_string()) {
    value = MakeStrings(tensor, shape, index);
  } else if (requests_.size() == 1) {
    value = WrapMemory(tensor, shape, first.bytes().data(), first.bytes().size(), first.place());
  } else {
    const Bytes bytes = GatherInput(index);
    value = WrapMemory(tensor, shape, bytes.data(), bytes.size(), {});
  }
  runtime.Check(runtime.api().BindInput(binding_.get(), tensor.name.c_str(), value.get()));
  inputs_.push_back(std::move(value));
}

OrtHandle<OrtValue> NetworkRun::MakeStrings(const NetworkTensor& tensor,
                                            std::span<const int64_t> shape, size_t index) {
  const OnnxRuntime& runtime = context_.runtime;
  const OrtApi& api = runtime.api();
  OrtValue* raw = nullptr;
  runtime.Check(api.CreateTensorAsOrtValue(runtime.allocator(), shape.data(), shape.size(),
                                           tensor.type->onnx, &raw));
  OrtHandle<OrtValue> value(raw, api.ReleaseValue);
  size_t element = 0;
  for (const NetworkRequest& request : requests_) {
    for (const Bytes text : request.inputs[index].Strings()) {
      char* to = nullptr;
      runtime.Check(
          api.GetResizedStringTensorElementBuffer(value.get(), element++, text.size(), &to));
      std::copy_n(reinterpret_cast<const char*>(text.data()), text.size(), to);
    }
  }
  return value;
}

Bytes NetworkRun::GatherInput(size_t index) {
  std::vector<std::byte>& all = gathered_.emplace_back();
  size_t bytes = 0;
  for (const NetworkRequest& request : requests_) bytes += request.inputs[index].bytes().size();
  all.reserve(bytes);
  for (const NetworkRequest& request : requests_) {
    const Bytes part = request.inputs[index].bytes();
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

OrtHandle<OrtValue> NetworkRun::WrapMemory(const NetworkTensor& tensor,
                                           std::span<const int64_t> shape, const void* data,
                                           size_t bytes, const MemoryPlace& place) {
  static std::array<std::byte, 8> nothing;  // a tensor without elements needs an address, too
  const OnnxRuntime& runtime = context_.runtime;
  const OrtApi& api = runtime.api();
  const OrtMemoryInfo* info = runtime.host_memory();
  if (place.on_gpu()) {
    OrtMemoryInfo* raw_info = nullptr;
    runtime.Check(api.CreateMemoryInfo("Cuda", OrtDeviceAllocator, place.device_id,
                                       OrtMemTypeDefault, &raw_info));
    info = memory_infos_.emplace_back(raw_info, api.ReleaseMemoryInfo).get();
  }
  // Inputs are only read.
  void* memory = bytes == 0 ? nothing.data() : const_cast<void*>(data);
  OrtValue* raw = nullptr;
  runtime.Check(api.CreateTensorWithDataAsOrtValue(info, memory, bytes, shape.data(), shape.size(),
                                                   tensor.type->onnx, &raw));
  return {raw, api.ReleaseValue};
}

void NetworkRun::BindOutput(const NetworkTensor& tensor) {
  const OnnxRuntime& runtime = context_.runtime;
  Output output{&tensor, OrtHandle<OrtValue>(nullptr, nullptr)};
  if (!BindResponse(tensor, output)) {
    runtime.Check(runtime.api().BindOutputToDevice(binding_.get(), tensor.name.c_str(),
                                                   runtime.host_memory()));
  }
  outputs_.push_back(std::move(output));
}

bool NetworkRun::BindResponse(const NetworkTensor& tensor, Output& output) {
  if (requests_.size() != 1 || tensor.type->is_string()) return false;
  const auto shape =
      PredictShape(tensor, context_.sessions.inputs(), context_.batched, item_count_);
  if (!shape.has_value()) return false;
  PendingRequest& pending = *requests_.front().pending;
  const size_t bytes = CountElements(*shape) * tensor.type->size;
  const MemoryPlace promised =
      pending.request.OutputPlace(tensor.name, bytes, context_.execution_context.memory());
  // The instance cannot write there; the output is copied after the run.
  if (promised.on_gpu() && promised != context_.execution_context.memory()) return false;
  const OutputMemory memory = pending.sink.AddOutput(tensor.name, tensor.type->triton,
                                                     MakeResponseShape(*shape), bytes, promised);
  if (memory.place.on_gpu() && memory.place != context_.execution_context.memory()) {
    throw Error(ErrorCode::kCuda,
                "the server gave output '" + tensor.name +
                    "' memory of another GPU than the instance's: give the models that "
                    "read it the same gpus in instance_group");
  }
  if (promised.on_gpu() && !memory.place.on_gpu()) context_.counters.CountSpill();
  output.value = WrapMemory(tensor, *shape, memory.data, bytes, memory.place);
  output.in_response = true;
  context_.runtime.Check(
      context_.runtime.api().BindOutput(binding_.get(), tensor.name.c_str(), output.value.get()));
  return true;
}

void NetworkRun::TakeOutputs() {
  const OnnxRuntime& runtime = context_.runtime;
  const OrtApi& api = runtime.api();
  OrtValue** values = nullptr;
  size_t count = 0;
  runtime.Check(api.GetBoundOutputValues(binding_.get(), runtime.allocator(), &values, &count));
  // In the order in which they were bound.
  for (size_t i = 0; i < count; ++i) outputs_[i].value = {values[i], api.ReleaseValue};
  runtime.Check(api.AllocatorFree(runtime.allocator(), static_cast<void*>(values)));
}

void NetworkRun::AddOutputs(size_t request_index) {
  const OnnxRuntime& runtime = context_.runtime;
  NetworkRequest& request = requests_[request_index];
  int64_t before = 0;
  for (size_t i = 0; i < request_index; ++i) before += requests_[i].item_count;
  for (const Output& output : outputs_) {
    if (output.in_response || !request.pending->request.WantsOutput(output.tensor->name)) continue;
    std::vector<int64_t> shape = ReadShape(runtime, output.value.get());
    size_t first = 0;
    if (requests_.size() > 1) {
      if (shape.empty() || shape.front() != item_count_) {
        throw Error(ErrorCode::kInvalidArgument,
                    "output '" + output.tensor->name +
                        "' does not have one row for each element of the batch: set the "
                        "parameter merge_requests to 0");
      }
      shape.front() = 1;
      first = CountElements(shape) * static_cast<size_t>(before);
      shape.front() = request.item_count;
    }
    const size_t elements = CountElements(shape);
    if (output.tensor->type->is_string()) {
      AddStrings(request, output, shape, first, elements);
      continue;
    }
    void* data = nullptr;
    runtime.Check(runtime.api().GetTensorMutableData(output.value.get(), &data));
    const size_t size = output.tensor->type->size;
    CopyToResponse(request, *output.tensor, shape,
                   {static_cast<const std::byte*>(data) + first * size, elements * size},
                   context_.execution_context);
  }
}

void NetworkRun::AddStrings(NetworkRequest& request, const Output& output,
                            std::span<const int64_t> shape, size_t first, size_t count) {
  const OnnxRuntime& runtime = context_.runtime;
  const OrtApi& api = runtime.api();
  size_t length = 0;
  runtime.Check(api.GetStringTensorDataLength(output.value.get(), &length));
  const size_t total = CountElements(ReadShape(runtime, output.value.get()));
  std::string text(length, '\0');
  std::vector<size_t> begins(total);
  if (total > 0) {
    runtime.Check(
        api.GetStringTensorContent(output.value.get(), text.data(), length, begins.data(), total));
  }
  begins.push_back(length);
  std::vector<std::byte> tensor;
  for (size_t i = first; i < first + count; ++i) {
    AppendString(tensor, std::string_view(text).substr(begins[i], begins[i + 1] - begins[i]));
  }
  CopyToResponse(request, *output.tensor, shape, tensor, context_.execution_context);
}

}  // namespace endcap::triton
