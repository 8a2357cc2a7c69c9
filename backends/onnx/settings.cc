#include "onnx/settings.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "endcap/error.h"

namespace endcap::triton {
namespace {

using Json = nlohmann::json;

[[noreturn]] void RejectSetting(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

bool ParseSwitch(std::string_view name, const std::string& text) {
  if (text == "1" || text == "true") return true;
  if (text == "0" || text == "false") return false;
  RejectSetting(std::string(name) + " is '" + text + "': give 1 or 0");
}

bool TakeSwitch(ModelParameters& parameters, std::string_view name, bool fallback) {
  const std::optional<std::string> text = parameters.Take(name);
  return text.has_value() ? ParseSwitch(name, *text) : fallback;
}

// Reads -1, 0, 1 or 2 of ModelOptimizationPolicy as Triton's backend for ONNX Runtime does.
GraphOptimizationLevel ReadLevel(const Json& optimization) {
  const Json graph = optimization.value("graph", Json::object());
  const Json value = graph.value("level", Json(0));
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  if (text == "-1") return ORT_ENABLE_BASIC;
  if (text == "0") return ORT_ENABLE_ALL;
  if (text == "1") return ORT_ENABLE_EXTENDED;
  if (text == "2") return ORT_DISABLE_ALL;
  RejectSetting("optimization.graph.level is " + text +
                ": give 0 for all optimizations, 1 for basic and extended ones, -1 for basic "
                "ones, or 2 for none");
}

// Translates options whose names in config.pbtxt differ from ONNX Runtime's.
std::pair<std::string, std::string> TranslateTensorRtOption(const std::string& key,
                                                            const std::string& value) {
  if (key == "max_workspace_size_bytes") return {"trt_max_workspace_size", value};
  if (key == "int8_calibration_table_name") return {"trt_int8_calibration_table_name", value};
  if (key == "int8_use_native_calibration_table") {
    return {"trt_int8_use_native_calibration_table", value};
  }
  if (key != "precision_mode") return {key, value};
  for (const auto& [mode, option] :
       {std::pair{"FP16", "trt_fp16_enable"}, std::pair{"BF16", "trt_bf16_enable"},
        std::pair{"INT8", "trt_int8_enable"}}) {
    if (value == mode) return {option, "1"};
  }
  if (value == "FP32") return {"trt_fp16_enable", "0"};
  RejectSetting("precision_mode is '" + value + "': give FP32, FP16, BF16 or INT8");
}

GpuProvider ReadGpuProvider(const Json& entry) {
  const std::string name = entry.value("name", "");
  if (name != "tensorrt" && name != "cuda") {
    RejectSetting("gpu_execution_accelerator '" + name + "' is unknown: there are tensorrt, cuda");
  }
  GpuProvider provider;
  provider.tensorrt = name == "tensorrt";
  const Json parameters = entry.value("parameters", Json::object());
  for (const auto& [key, json_value] : parameters.items()) {
    const std::string value = json_value.get<std::string>();
    provider.options.push_back(provider.tensorrt ? TranslateTensorRtOption(key, value)
                                                 : std::pair{key, value});
  }
  return provider;
}

void ReadAccelerators(const Json& optimization, OnnxSettings& settings) {
  const Json accelerators = optimization.value("execution_accelerators", Json::object());
  const Json on_cpu = accelerators.value("cpu_execution_accelerator", Json::array());
  if (!on_cpu.empty()) {
    RejectSetting("cpu_execution_accelerator '" + on_cpu[0].value("name", "") +
                  "' is not supported: this backend has ONNX Runtime's own kernels on a CPU, and "
                  "gpu_execution_accelerator tensorrt or cuda");
  }
  const Json on_gpu = accelerators.value("gpu_execution_accelerator", Json::array());
  for (const Json& entry : on_gpu) settings.gpu_providers.push_back(ReadGpuProvider(entry));
  settings.names_gpu_providers = !on_gpu.empty();
}

// Removes the CUDA parameters that Triton's backend takes in addition to execution_accelerators.
ParameterList TakeCudaParameters(ModelParameters& parameters) {
  constexpr std::array kSearches{"EXHAUSTIVE", "HEURISTIC", "DEFAULT"};
  constexpr std::array kStrategies{"kNextPowerOfTwo", "kSameAsRequested"};
  const auto choose = [](std::string_view name, const std::string& text, const auto& choices) {
    const auto index = static_cast<size_t>(ParseCount(name, text));
    if (index < choices.size()) return std::string(choices[index]);
    RejectSetting(std::string(name) + " is " + text + ": the greatest is " +
                  std::to_string(choices.size() - 1));
  };
  ParameterList options;
  if (const auto text = parameters.Take("cudnn_conv_algo_search")) {
    options.emplace_back("cudnn_conv_algo_search",
                         choose("cudnn_conv_algo_search", *text, kSearches));
  }
  if (const auto text = parameters.Take("arena_extend_strategy")) {
    options.emplace_back("arena_extend_strategy",
                         choose("arena_extend_strategy", *text, kStrategies));
  }
  for (const std::string_view name : {"gpu_mem_limit", "do_copy_in_default_stream"}) {
    if (const auto text = parameters.Take(name)) options.emplace_back(name, *text);
  }
  return options;
}

// Adds CUDA, which runs the operators that TensorRT does not take, and networks without a provider.
void CompleteGpuProviders(OnnxSettings& settings, const ParameterList& cuda_parameters) {
  const auto is_cuda = [](const GpuProvider& provider) { return !provider.tensorrt; };
  auto cuda = std::ranges::find_if(settings.gpu_providers, is_cuda);
  if (cuda == settings.gpu_providers.end()) {
    settings.gpu_providers.emplace_back();
    cuda = std::prev(settings.gpu_providers.end());
  }
  cuda->options.insert(cuda->options.begin(), cuda_parameters.begin(), cuda_parameters.end());
}

std::filesystem::path ChooseFile(const ModelConfig& config) {
  std::string name = config.json().value("default_model_filename", "");
  if (name.empty()) name = "model.onnx";
  // Links of the folder are resolved, so that messages name the user's file; those of the file
  // itself are not, because external data is searched for in its folder.
  std::filesystem::path file =
      std::filesystem::weakly_canonical(config.folder()) / std::to_string(config.version()) / name;
  if (std::filesystem::is_directory(file)) file /= "model.onnx";
  return file;
}

void RejectUnsupportedParts(const Json& config) {
  for (const char* part : {"sequence_batching", "batch_input", "batch_output"}) {
    const auto found = config.find(part);
    if (found == config.end() || found->empty()) continue;
    RejectSetting("the config has " + std::string(part) +
                  ", which this backend does not support: leave it out, or use a server with "
                  "the backend onnxruntime");
  }
  for (const Json& input : config.value("input", Json::array())) {
    const std::string label = "input '" + input.value("name", "") + "' has ";
    if (input.value("allow_ragged_batch", false)) {
      RejectSetting(label +
                    "allow_ragged_batch, which this backend does not support: requests "
                    "of different shapes get runs of their own without it");
    }
    if (input.value("optional", false)) {
      RejectSetting(label + "optional: true, but ONNX Runtime needs every input: leave it out");
    }
  }
}

}  // namespace

OnnxSettings ReadOnnxSettings(const ModelConfig& config) {
  RejectUnsupportedParts(config.json());
  ModelParameters parameters = config.parameters();
  OnnxSettings settings;
  settings.file = ChooseFile(config);
  settings.library = parameters.Take("onnxruntime_library");
  settings.intra_op_threads = parameters.TakeCount("intra_op_thread_count", 0);
  settings.inter_op_threads = parameters.TakeCount("inter_op_thread_count", 0);
  settings.max_concurrent_runs = parameters.TakeCount("max_concurrent_runs", 0);
  if (const auto text = parameters.Take("merge_requests")) {
    settings.merge_requests = ParseSwitch("merge_requests", *text);
  }
  settings.execution_mode =
      TakeSwitch(parameters, "execution_mode", false) ? ORT_PARALLEL : ORT_SEQUENTIAL;
  settings.memory_arena = TakeSwitch(parameters, "enable_mem_arena", true);
  settings.memory_pattern = TakeSwitch(parameters, "enable_mem_pattern", true);
  settings.arena_shrinkage = parameters.Take("memory.enable_memory_arena_shrinkage").value_or("");
  if (!settings.memory_arena && !settings.arena_shrinkage.empty()) {
    RejectSetting(
        "memory.enable_memory_arena_shrinkage is given beside enable_mem_arena: 0, which leaves no "
        "arena to shrink: leave one of them out");
  }
  settings.session = parameters.TakeWithPrefix("session.");
  const Json optimization = config.json().value("optimization", Json::object());
  settings.level = ReadLevel(optimization);
  ReadAccelerators(optimization, settings);
  CompleteGpuProviders(settings, TakeCudaParameters(parameters));
  static_cast<void>(parameters.Rest());  // rejects unknown ones
  return settings;
}

}  // namespace endcap::triton
