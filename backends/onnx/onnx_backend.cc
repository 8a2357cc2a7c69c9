#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "onnx/onnx_model.h"
#include "onnx/runtime.h"
#include "onnx/session.h"
#include "onnx/settings.h"
#include "triton_util/errors.h"
#include "triton_util/model.h"

namespace endcap::triton {
namespace {

using Json = nlohmann::json;

constexpr const char* kLibraryVariable = "ENDCAP_ONNXRUNTIME";
constexpr const char* kLibrarySoname = "libonnxruntime.so.1";
constexpr const char* kDefaultMaxBatchSize = "4";  // that of Triton's backend

// The options --backend-config=endcap_onnx,NAME=VALUE.
class CommandLine {
 public:
  explicit CommandLine(TRITONBACKEND_Model* model) {
    TRITONBACKEND_Backend* backend = nullptr;
    Check(TRITONBACKEND_ModelBackend(model, &backend));
    TRITONSERVER_Message* config = nullptr;  // the backend owns it
    Check(TRITONBACKEND_BackendConfig(backend, &config));
    const char* text = nullptr;
    size_t size = 0;
    Check(TRITONSERVER_MessageSerializeToJson(config, &text, &size));
    options_ = Json::parse(text, text + size).value("cmdline", Json::object());
  }

  std::optional<std::string> Find(const char* name) const {
    const auto found = options_.find(name);
    return found == options_.end() ? std::nullopt : std::optional(found->get<std::string>());
  }
  int ReadCount(const char* name, const char* fallback) const {
    return ParseCount(name, Find(name).value_or(fallback));
  }

 private:
  Json options_;
};

OnnxLibrary ChooseLibrary(const OnnxSettings& settings, const CommandLine& command_line) {
  if (settings.library.has_value()) {
    return {*settings.library, "parameter onnxruntime_library of the model"};
  }
  if (const auto path = command_line.Find("onnxruntime_library")) {
    return {*path, "--backend-config=endcap_onnx,onnxruntime_library"};
  }
  if (const char* path = std::getenv(kLibraryVariable); path != nullptr && *path != '\0') {
    return {path, std::string("environment variable ") + kLibraryVariable};
  }
  return {kLibrarySoname, "the default"};
}

// Whether the config puts all instances on GPUs.
bool IsOnGpusOnly(const ModelConfig& config) {
  const Json groups = config.json().value("instance_group", Json::array());
  return !groups.empty() && std::all_of(groups.begin(), groups.end(), [](const Json& group) {
    return group.value("kind", "") == "KIND_GPU";
  });
}

bool HasVariableFirstDim(const NetworkTensor& tensor) {
  return !tensor.dims.empty() && tensor.dims.front() == -1;
}

bool CanBatch(const SessionPair& sessions) {
  return std::ranges::all_of(sessions.inputs(), HasVariableFirstDim) &&
         std::ranges::all_of(sessions.outputs(), HasVariableFirstDim);
}

void CompleteMaxBatchSize(ModelConfig& config, const SessionPair& sessions,
                          const CommandLine& command_line) {
  // A config that lists its tensors has decided on batching.
  const bool is_complete = !config.json().value("input", Json::array()).empty() &&
                           !config.json().value("output", Json::array()).empty();
  if (is_complete || !config.completed() || !CanBatch(sessions)) return;
  config.CompleteBatching(
      config.max_batch_size() > 0
          ? config.max_batch_size()
          : command_line.ReadCount("default-max-batch-size", kDefaultMaxBatchSize));
}

std::vector<TensorContract> MakeContracts(const std::vector<NetworkTensor>& tensors,
                                          const char* side, bool batched,
                                          const OnnxSettings& settings) {
  std::vector<TensorContract> contracts;
  for (const NetworkTensor& tensor : tensors) {
    std::vector<int64_t> dims = tensor.dims;
    if (batched) {
      if (!HasVariableFirstDim(tensor)) {
        throw Error(ErrorCode::kInvalidArgument,
                    std::string(side) + " '" + tensor.name + "' of '" + settings.file.string() +
                        "' has no variable first dimension for a batch: give max_batch_size: 0, "
                        "or export the network with one");
      }
      dims.erase(dims.begin());
    } else if (dims.empty()) {
      dims = {1};  // a scalar
    }
    TensorContract contract;
    contract.name = tensor.name;
    contract.forms = {{std::string(tensor.type->config_name), std::move(dims)}};
    contract.determined_by = settings.file.filename().string();
    contracts.push_back(std::move(contract));
  }
  return contracts;
}

class OnnxBackend final : public Backend {
 public:
  OnnxBackend()
      : Backend("endcap_onnx",
                {{"runs_total", "Completed calls of ONNX Runtime"},
                 {"shared_runs_total", "Calls of ONNX Runtime that had the shared threads"}}) {}

  std::unique_ptr<Model> Load(ModelConfig& config) const override {
    const CommandLine command_line(config.handle());
    OnnxSettings settings = ReadOnnxSettings(config);
    std::shared_ptr<OnnxRuntime> runtime =
        OpenRuntime(ChooseLibrary(settings, command_line), command_line);
    auto sessions = std::make_shared<SessionPair>(*runtime, settings, config.name(), std::nullopt);
    CompleteMaxBatchSize(config, *sessions, command_line);
    const bool batched = config.max_batch_size() > 0;
    ModelContract contract;
    contract.inputs = MakeContracts(sessions->inputs(), "input", batched, settings);
    contract.outputs = MakeContracts(sessions->outputs(), "output", batched, settings);
    config.Complete(contract);
    if (IsOnGpusOnly(config)) sessions.reset();
    return std::make_unique<OnnxModel>(config, families(), std::move(runtime), std::move(settings),
                                       std::move(sessions));
  }

 private:
  // The environments live as long as the backend: they hold threads, and no memory of a model.
  std::shared_ptr<OnnxRuntime> OpenRuntime(const OnnxLibrary& library,
                                           const CommandLine& command_line) const {
    const std::scoped_lock lock(mutex_);
    std::shared_ptr<OnnxRuntime>& runtime = runtimes_[library.path];
    if (runtime == nullptr) {
      const SharedPool pool{command_line.ReadCount("intra_op_thread_count", "0"),
                            command_line.ReadCount("inter_op_thread_count", "0"),
                            command_line.ReadCount("allow_spinning", "0") != 0};
      runtime = std::make_shared<OnnxRuntime>(library, pool);
    }
    return runtime;
  }

  mutable std::mutex mutex_;
  mutable std::map<std::string, std::shared_ptr<OnnxRuntime>> runtimes_;  // by path
};

}  // namespace

std::unique_ptr<Backend> CreateBackend() { return std::make_unique<OnnxBackend>(); }

}  // namespace endcap::triton
