#include "onnx/runtime.h"

#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

#include "endcap/thread_pool.h"
#include "triton_util/errors.h"

namespace endcap::triton {
namespace {

constexpr const char* kLogId = "endcap_onnx";

constexpr const char* kLibraryAdvice =
    "name its file by the parameter onnxruntime_library, by "
    "--backend-config=endcap_onnx,onnxruntime_library=PATH, or by the environment variable "
    "ENDCAP_ONNXRUNTIME; `pip install onnxruntime` has it as "
    "onnxruntime/capi/libonnxruntime.so.1.X";

[[noreturn]] void RejectLibrary(const OnnxLibrary& library, const std::string& what) {
  throw Error(ErrorCode::kUnsupported, "ONNX Runtime cannot be used: '" + library.path + "' (" +
                                           library.origin + ") " + what);
}

std::atomic<bool> is_exiting = false;

// The table of functions and the release of the library.
struct OpenedLibrary {
  const OrtApi* api;
  std::string version;
};

OpenedLibrary OpenLibrary(const OnnxLibrary& library) {
  void* handle = dlopen(library.path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* reason = dlerror();
    RejectLibrary(library, "cannot be opened: " + std::string(reason == nullptr ? "" : reason) +
                               "; " + kLibraryAdvice);
  }
  using GetApiBase = const OrtApiBase* (*)();
  const auto get_base = reinterpret_cast<GetApiBase>(dlsym(handle, "OrtGetApiBase"));
  if (get_base == nullptr) {
    RejectLibrary(library,
                  std::string("is another library: it has no OrtGetApiBase; ") + kLibraryAdvice);
  }
  const OrtApiBase* base = get_base();
  const std::string version = base->GetVersionString();
  const OrtApi* api = base->GetApi(ENDCAP_ORT_API_VERSION);
  if (api == nullptr) {
    RejectLibrary(library, "is ONNX Runtime " + version +
                               ", but " ENDCAP_ORT_OLDEST_RELEASE
                               " or later is needed: `pip install --upgrade onnxruntime`, or "
                               "name a newer library");
  }
  return {api, version};
}

void LogForOnnxRuntime(void* /*param*/, OrtLoggingLevel severity, const char* /*category*/,
                       const char* logid, const char* /*code_location*/, const char* message) {
  auto level = TRITONSERVER_LOG_VERBOSE;
  if (severity == ORT_LOGGING_LEVEL_WARNING) level = TRITONSERVER_LOG_WARN;
  if (severity >= ORT_LOGGING_LEVEL_ERROR) level = TRITONSERVER_LOG_ERROR;
  LogIfFailed(Guard([&] { Log(level, "ONNX Runtime, " + std::string(logid) + ": " + message); }));
}

ErrorCode ClassifyFailure(OrtErrorCode code, std::string_view message) {
  for (const std::string_view sign : {"bad_alloc", "bad allocation", "Failed to allocate memory"}) {
    if (message.find(sign) != std::string_view::npos) return ErrorCode::kOutOfMemory;
  }
  switch (code) {
    case ORT_INVALID_ARGUMENT:
      return ErrorCode::kInvalidArgument;
    case ORT_NOT_IMPLEMENTED:
      return ErrorCode::kUnsupported;
    default:
      return ErrorCode::kInternal;
  }
}

OrtHandle<OrtEnv> CreateEnvironment(const OnnxRuntime& runtime, const SharedPool& pool,
                                    int intra_op_threads) {
  const OrtApi& api = runtime.api();
  OrtThreadingOptions* raw_options = nullptr;
  runtime.Check(api.CreateThreadingOptions(&raw_options));
  const OrtHandle<OrtThreadingOptions> options(raw_options, api.ReleaseThreadingOptions);
  runtime.Check(api.SetGlobalIntraOpNumThreads(raw_options, intra_op_threads));
  const int inter_op_threads =
      pool.inter_op_threads == 0 ? AvailableCpuCount() : pool.inter_op_threads;
  runtime.Check(api.SetGlobalInterOpNumThreads(raw_options, inter_op_threads));
  runtime.Check(api.SetGlobalSpinControl(raw_options, pool.spins ? 1 : 0));
  OrtEnv* env = nullptr;
  runtime.Check(api.CreateEnvWithCustomLoggerAndGlobalThreadPools(
      LogForOnnxRuntime, nullptr, ORT_LOGGING_LEVEL_WARNING, kLogId, raw_options, &env));
  return {env, api.ReleaseEnv};
}

void EndRuns(const std::atomic<int>& runs) noexcept {
  constexpr auto kTimeout = std::chrono::seconds(5);
  constexpr auto kPoll = std::chrono::milliseconds(2);
  is_exiting = true;
  const auto deadline = std::chrono::steady_clock::now() + kTimeout;
  while (runs > 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kPoll);
  }
}

}  // namespace

std::atomic<int> OnnxRuntime::runs_{0};

void OnnxRuntime::DelayExit() noexcept {
  if (std::atexit([] { EndRuns(runs_); }) != 0) {
    Log(TRITONSERVER_LOG_WARN, "runs of ONNX Runtime may fail when the server ends: no memory");
  }
}

bool OnnxRuntime::IsExiting() noexcept { return is_exiting; }

OrtError::OrtError(OrtErrorCode ort_code, const std::string& message)
    : Error(ClassifyFailure(ort_code, message), message), ort_code_(ort_code) {}

OnnxRuntime::OnnxRuntime(const OnnxLibrary& library, const SharedPool& pool)
    : api_(nullptr),
      shared_threads_(pool.intra_op_threads == 0 ? AvailableCpuCount() : pool.intra_op_threads),
      env_(nullptr, nullptr),
      host_memory_(nullptr, nullptr) {
  OpenedLibrary opened = OpenLibrary(library);
  api_ = opened.api;
  version_ = std::move(opened.version);
  label_ = "ONNX Runtime " + version_ + " (" + library.path + ")";
  env_ = CreateEnvironment(*this, pool, shared_threads_);
  OrtMemoryInfo* memory = nullptr;
  Check(api_->CreateMemoryInfo("Cpu", OrtDeviceAllocator, 0, OrtMemTypeDefault, &memory));
  host_memory_ = {memory, api_->ReleaseMemoryInfo};
  Check(api_->GetAllocatorWithDefaultOptions(&allocator_));
  ReadProviders();
}

void OnnxRuntime::ReadProviders() {
  char** names = nullptr;
  int count = 0;
  Check(api_->GetAvailableProviders(&names, &count));
  for (int i = 0; i < count; ++i) providers_.emplace_back(names[i]);
  Check(api_->ReleaseAvailableProviders(names, count));
}

void OnnxRuntime::Check(OrtStatus* status) const {
  if (status == nullptr) return;
  const OrtHandle<OrtStatus> owner(status, api_->ReleaseStatus);
  std::string message = api_->GetErrorMessage(status);
  message.erase(message.find_last_not_of("\n ") + 1);
  throw OrtError(api_->GetErrorCode(status), message);
}

std::string JoinNames(const std::vector<std::string>& names) {
  std::string joined;
  for (const std::string& name : names) joined.append(joined.empty() ? "" : ", ").append(name);
  return joined;
}

}  // namespace endcap::triton
