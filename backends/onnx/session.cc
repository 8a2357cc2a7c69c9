#include "onnx/session.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <system_error>

#include "endcap/thread_pool.h"

namespace endcap::triton {
namespace {

constexpr std::array<ElementType, 14> kElementTypes{{
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL, TRITONSERVER_TYPE_BOOL, "TYPE_BOOL", 1},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8, TRITONSERVER_TYPE_UINT8, "TYPE_UINT8", 1},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16, TRITONSERVER_TYPE_UINT16, "TYPE_UINT16", 2},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32, TRITONSERVER_TYPE_UINT32, "TYPE_UINT32", 4},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64, TRITONSERVER_TYPE_UINT64, "TYPE_UINT64", 8},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8, TRITONSERVER_TYPE_INT8, "TYPE_INT8", 1},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16, TRITONSERVER_TYPE_INT16, "TYPE_INT16", 2},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, TRITONSERVER_TYPE_INT32, "TYPE_INT32", 4},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, TRITONSERVER_TYPE_INT64, "TYPE_INT64", 8},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16, TRITONSERVER_TYPE_FP16, "TYPE_FP16", 2},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16, TRITONSERVER_TYPE_BF16, "TYPE_BF16", 2},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, TRITONSERVER_TYPE_FP32, "TYPE_FP32", 4},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE, TRITONSERVER_TYPE_FP64, "TYPE_FP64", 8},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING, TRITONSERVER_TYPE_BYTES, "TYPE_STRING", 0},
}};

// Returns null for types that Triton does not have.
const ElementType* FindElementType(ONNXTensorElementDataType type) noexcept {
  const auto* found = std::ranges::find(kElementTypes, type, &ElementType::onnx);
  return found == kElementTypes.end() ? nullptr : &*found;
}

[[noreturn]] void RejectFile(const std::filesystem::path& file, const std::string& what) {
  throw Error(ErrorCode::kInvalidArgument, "model file '" + file.string() + "' " + what);
}

void CheckFile(const std::filesystem::path& file) {
  constexpr auto kMaxBytes = static_cast<uintmax_t>(std::numeric_limits<int32_t>::max());
  std::error_code unreadable;
  const uintmax_t bytes = std::filesystem::file_size(file, unreadable);
  if (unreadable == std::errc::no_such_file_or_directory) {
    RejectFile(file,
               "does not exist: put the network there, or give the file's name as "
               "default_model_filename in config.pbtxt");
  }
  if (unreadable) RejectFile(file, "cannot be read: " + unreadable.message());
  if (bytes == 0) RejectFile(file, "is empty: copy the network there again");
  if (bytes > kMaxBytes) {
    RejectFile(file, "has " + std::to_string(bytes) + " bytes, but an ONNX file holds at most " +
                         std::to_string(kMaxBytes) +
                         ": export the network with its weights as external data");
  }
}

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Returns advice on a file that ONNX Runtime rejects.
std::string AdviseOnFile(const OrtError& error, const std::filesystem::path& file,
                         const OnnxRuntime& runtime) {
  // Without the name of the file, which may contain any of the words below.
  std::string message = error.what();
  for (size_t at = 0; (at = message.find(file.string())) != std::string::npos;) {
    message.erase(at, file.string().size());
  }
  if (Contains(message, "IR version") || Contains(message, "Opset") || Contains(message, "opset")) {
    return "export the network for an older opset or IR version, or `pip install --upgrade "
           "onnxruntime` and name the newer library: this is " +
           runtime.label();
  }
  if (Contains(message, "xternal data") || Contains(message, "external_data")) {
    return "copy the files with the network's external data into the folder of the file, under the "
           "names that they had when it was exported";
  }
  if (error.ort_code() == ORT_INVALID_PROTOBUF) {
    return "the file is damaged or holds no ONNX network: copy or export it again";
  }
  if (error.ort_code() == ORT_NOT_IMPLEMENTED || Contains(message, "No Op registered")) {
    return "the network has an operator that " + runtime.label() +
           " does not have: export it for another opset, or use a newer library";
  }
  return "check the network with onnx.checker.check_model, and whether the onnxruntime of Python "
         "loads it; this is " +
         runtime.label();
}

void AddConfigEntries(const OnnxRuntime& runtime, OrtSessionOptions* options,
                      const ParameterList& entries) {
  for (const auto& [key, value] : entries) {
    runtime.Check(runtime.api().AddSessionConfigEntry(options, key.c_str(), value.c_str()));
  }
}

// Names and values of options as arrays of pointers.
struct OptionPointers {
  std::vector<const char*> keys;
  std::vector<const char*> values;

  explicit OptionPointers(const ParameterList& options) {
    for (const auto& [key, value] : options) {
      keys.push_back(key.c_str());
      values.push_back(value.c_str());
    }
  }
};

void RequireProvider(const OnnxRuntime& runtime, const GpuProvider& provider) {
  const std::string name =
      provider.tensorrt ? "TensorrtExecutionProvider" : "CUDAExecutionProvider";
  for (const std::string& present : runtime.providers()) {
    if (present == name) return;
  }
  throw Error(ErrorCode::kUnsupported,
              runtime.label() + " has no " + name + " (it has " + JoinNames(runtime.providers()) +
                  "): name a library that has it, as `pip install onnxruntime-gpu` brings, or "
                  "leave gpu_execution_accelerator out and give instance_group { kind: KIND_CPU }");
}

void AppendTensorRt(const OnnxRuntime& runtime, OrtSessionOptions* options,
                    const OptionPointers& pointers) {
  const OrtApi& api = runtime.api();
  OrtTensorRTProviderOptionsV2* raw = nullptr;
  runtime.Check(api.CreateTensorRTProviderOptions(&raw));
  const OrtHandle<OrtTensorRTProviderOptionsV2> owner(raw, api.ReleaseTensorRTProviderOptions);
  runtime.Check(api.UpdateTensorRTProviderOptions(raw, pointers.keys.data(), pointers.values.data(),
                                                  pointers.keys.size()));
  runtime.Check(api.SessionOptionsAppendExecutionProvider_TensorRT_V2(options, raw));
}

void AppendCuda(const OnnxRuntime& runtime, OrtSessionOptions* options,
                const OptionPointers& pointers) {
  const OrtApi& api = runtime.api();
  OrtCUDAProviderOptionsV2* raw = nullptr;
  runtime.Check(api.CreateCUDAProviderOptions(&raw));
  const OrtHandle<OrtCUDAProviderOptionsV2> owner(raw, api.ReleaseCUDAProviderOptions);
  runtime.Check(api.UpdateCUDAProviderOptions(raw, pointers.keys.data(), pointers.values.data(),
                                              pointers.keys.size()));
  runtime.Check(api.SessionOptionsAppendExecutionProvider_CUDA_V2(options, raw));
}

void AppendGpuProvider(const OnnxRuntime& runtime, OrtSessionOptions* options,
                       const GpuProvider& provider, int device_id) {
  RequireProvider(runtime, provider);
  ParameterList entries{{"device_id", std::to_string(device_id)}};
  entries.insert(entries.end(), provider.options.begin(), provider.options.end());
  const OptionPointers pointers(entries);
  if (provider.tensorrt) {
    AppendTensorRt(runtime, options, pointers);
  } else {
    AppendCuda(runtime, options, pointers);
  }
}

void SetThreads(const OnnxRuntime& runtime, OrtSessionOptions* options,
                const OnnxSettings& settings, SessionThreads threads) {
  const OrtApi& api = runtime.api();
  switch (threads) {
    case SessionThreads::kShared:
      runtime.Check(api.DisablePerSessionThreads(options));
      return;
    case SessionThreads::kOne:
      runtime.Check(api.SetIntraOpNumThreads(options, 1));
      runtime.Check(api.SetInterOpNumThreads(options, 1));
      return;
    case SessionThreads::kOwn:
      runtime.Check(api.SetIntraOpNumThreads(options, settings.intra_op_threads == 0
                                                          ? AvailableCpuCount()
                                                          : settings.intra_op_threads));
      runtime.Check(api.SetInterOpNumThreads(options, settings.inter_op_threads));
      return;
  }
}

OrtHandle<OrtSessionOptions> CreateOptions(const OnnxRuntime& runtime, const OnnxSettings& settings,
                                           const std::string& log_id, SessionThreads threads) {
  const OrtApi& api = runtime.api();
  OrtSessionOptions* raw = nullptr;
  runtime.Check(api.CreateSessionOptions(&raw));
  OrtHandle<OrtSessionOptions> options(raw, api.ReleaseSessionOptions);
  runtime.Check(api.SetSessionLogId(raw, log_id.c_str()));
  runtime.Check(api.SetSessionGraphOptimizationLevel(raw, settings.level));
  const bool parallel = settings.execution_mode == ORT_PARALLEL && threads != SessionThreads::kOne;
  runtime.Check(api.SetSessionExecutionMode(raw, parallel ? ORT_PARALLEL : ORT_SEQUENTIAL));
  if (!settings.memory_arena) runtime.Check(api.DisableCpuMemArena(raw));
  if (!settings.memory_pattern) runtime.Check(api.DisableMemPattern(raw));
  SetThreads(runtime, raw, settings, threads);
  AddConfigEntries(runtime, raw, settings.session);
  return options;
}

OrtHandle<OrtSession> LoadNetwork(const OnnxRuntime& runtime, const OnnxSettings& settings,
                                  const OrtSessionOptions* options) {
  CheckFile(settings.file);
  OrtSession* session = nullptr;
  try {
    runtime.Check(
        runtime.api().CreateSession(runtime.env(), settings.file.c_str(), options, &session));
  } catch (const OrtError& error) {
    if (error.code() == ErrorCode::kOutOfMemory) throw;
    RejectFile(settings.file, "cannot be loaded: " + std::string(error.what()) + "; " +
                                  AdviseOnFile(error, settings.file, runtime));
  }
  return {session, runtime.api().ReleaseSession};
}

// Reads names, types and dims of the inputs or of the outputs of a network.
class TensorReader {
 public:
  TensorReader(const OnnxRuntime& runtime, const OnnxSettings& settings, OrtSession* session,
               bool inputs)
      : runtime_(runtime), file_(settings.file), session_(session), inputs_(inputs) {}

  std::vector<NetworkTensor> Read() const {
    const OrtApi& api = runtime_.api();
    size_t count = 0;
    runtime_.Check(
        (inputs_ ? api.SessionGetInputCount : api.SessionGetOutputCount)(session_, &count));
    std::vector<NetworkTensor> tensors;
    tensors.reserve(count);
    for (size_t i = 0; i < count; ++i) tensors.push_back(ReadTensor(i));
    return tensors;
  }

 private:
  std::string ReadName(size_t index) const {
    const OrtApi& api = runtime_.api();
    char* raw = nullptr;
    runtime_.Check((inputs_ ? api.SessionGetInputName : api.SessionGetOutputName)(
        session_, index, runtime_.allocator(), &raw));
    std::string name = raw;
    runtime_.Check(api.AllocatorFree(runtime_.allocator(), raw));
    return name;
  }

  NetworkTensor ReadTensor(size_t index) const {
    const OrtApi& api = runtime_.api();
    NetworkTensor tensor{ReadName(index), nullptr, {}};
    OrtTypeInfo* raw = nullptr;
    runtime_.Check((inputs_ ? api.SessionGetInputTypeInfo : api.SessionGetOutputTypeInfo)(
        session_, index, &raw));
    const OrtHandle<OrtTypeInfo> info(raw, api.ReleaseTypeInfo);
    const OrtTensorTypeAndShapeInfo* shape = nullptr;  // `info` owns it
    runtime_.Check(api.CastTypeInfoToTensorInfo(info.get(), &shape));
    ONNXType kind = ONNX_TYPE_UNKNOWN;
    runtime_.Check(api.GetOnnxTypeFromTypeInfo(info.get(), &kind));
    if (shape == nullptr || kind != ONNX_TYPE_TENSOR) {
      RejectTensor(tensor,
                   "is not a dense tensor: only networks whose inputs and outputs are tensors can "
                   "be served");
    }
    ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    runtime_.Check(api.GetTensorElementType(shape, &type));
    tensor.type = FindElementType(type);
    if (tensor.type == nullptr) {
      RejectTensor(tensor, "has element type " + std::to_string(type) +
                               " of ONNX, which Triton does not have: cast it in the network");
    }
    size_t rank = 0;
    runtime_.Check(api.GetDimensionsCount(shape, &rank));
    tensor.dims.resize(rank);
    runtime_.Check(api.GetDimensions(shape, tensor.dims.data(), rank));
    return tensor;
  }

  [[noreturn]] void RejectTensor(const NetworkTensor& tensor, const std::string& what) const {
    RejectFile(file_, std::string(inputs_ ? "has an input '" : "has an output '") + tensor.name +
                          "' that " + what);
  }

  const OnnxRuntime& runtime_;
  const std::filesystem::path& file_;
  OrtSession* session_;
  bool inputs_;
};

SessionThreads ChooseMainThreads(const OnnxRuntime& runtime, const OnnxSettings& settings) {
  if (settings.owns_threads()) return SessionThreads::kOwn;
  return runtime.shared_threads() == 1 ? SessionThreads::kOne : SessionThreads::kShared;
}

}  // namespace

OnnxSession::OnnxSession(const OnnxRuntime& runtime, const OnnxSettings& settings,
                         const std::string& log_id, SessionThreads threads,
                         std::optional<int> device_id)
    : session_(nullptr, nullptr) {
  const OrtHandle<OrtSessionOptions> options = CreateOptions(runtime, settings, log_id, threads);
  if (device_id.has_value()) {
    for (const GpuProvider& provider : settings.gpu_providers) {
      AppendGpuProvider(runtime, options.get(), provider, *device_id);
    }
  } else if (settings.names_gpu_providers) {
    for (const GpuProvider& provider : settings.gpu_providers) RequireProvider(runtime, provider);
  }
  session_ = LoadNetwork(runtime, settings, options.get());
  inputs_ = TensorReader(runtime, settings, session_.get(), true).Read();
  outputs_ = TensorReader(runtime, settings, session_.get(), false).Read();
}

SessionPair::SessionPair(OnnxRuntime& runtime, const OnnxSettings& settings,
                         const std::string& log_id, std::optional<int> device_id)
    : runtime_(runtime),
      main_(runtime, settings, log_id, ChooseMainThreads(runtime, settings), device_id),
      main_is_shared_(ChooseMainThreads(runtime, settings) == SessionThreads::kShared) {
  // On a GPU the CPU threads do little, and a second session would need GPU memory.
  if (main_is_shared_ && !device_id.has_value() && settings.max_concurrent_runs != 1) {
    one_thread_ =
        std::make_unique<OnnxSession>(runtime, settings, log_id, SessionThreads::kOne, device_id);
  }
  OnnxRuntime::DelayExit();
}

SessionPair::Lease::Lease(SessionPair& sessions) noexcept : sessions_(sessions) {
  const bool alone = sessions_.runtime_.runs().fetch_add(1) == 0;
  const bool main = alone || sessions_.one_thread_ == nullptr;
  shared_ = main && sessions_.main_is_shared_;
  session_ = (main ? sessions_.main_ : *sessions_.one_thread_).handle();
}

void SessionPair::Lease::End() noexcept {
  if (ended_) return;
  ended_ = true;
  sessions_.runtime_.runs().fetch_sub(1);
}

}  // namespace endcap::triton
