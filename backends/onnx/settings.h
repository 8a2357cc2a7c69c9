#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "endcap/params.h"
#include "onnx/onnxruntime_api.h"
#include "triton_util/model_config.h"

namespace endcap::triton {

// An execution provider on a GPU, and its options in ONNX Runtime's names.
struct GpuProvider {
  bool tensorrt = false;  // else CUDA
  ParameterList options;
};

// The settings of a network in config.pbtxt.
struct OnnxSettings {
  std::filesystem::path file;
  std::optional<std::string> library;  // onnxruntime_library
  int intra_op_threads = 0;            // 0: chosen for each run, from the shared threads
  int inter_op_threads = 0;            // 0: the shared threads
  int max_concurrent_runs = 0;         // 0: as many as CPUs
  std::optional<bool> merge_requests;  // none: on a GPU only
  ExecutionMode execution_mode = ORT_SEQUENTIAL;
  GraphOptimizationLevel level = ORT_ENABLE_ALL;
  bool memory_arena = true;
  bool memory_pattern = true;
  std::string arena_shrinkage;             // empty: none
  ParameterList session;                   // session.*
  std::vector<GpuProvider> gpu_providers;  // in the order of preference; CUDA when there is none
  bool names_gpu_providers = false;        // whether the config lists them

  // Whether sessions have threads of their own.
  bool owns_threads() const noexcept { return intra_op_threads > 0 || inter_op_threads > 0; }
};

// Throws kInvalidArgument for a parameter that is unknown or impossible, and for parts of the
// config that the backend does not support.
OnnxSettings ReadOnnxSettings(const ModelConfig& config);

}  // namespace endcap::triton
