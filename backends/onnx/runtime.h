#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "endcap/error.h"
#include "onnx/onnxruntime_api.h"

namespace endcap::triton {

// Owner of an object of ONNX Runtime, with the function that releases it.
template <typename T>
using OrtHandle = std::unique_ptr<T, void (*)(T*)>;

// An error of ONNX Runtime, with its own code in addition to endcap's.
class OrtError : public Error {
 public:
  OrtError(OrtErrorCode ort_code, const std::string& message);
  OrtErrorCode ort_code() const noexcept { return ort_code_; }

 private:
  OrtErrorCode ort_code_;
};

// The shared library of ONNX Runtime.
struct OnnxLibrary {
  std::string path;
  std::string origin;  // the setting that the path is from, for messages
};

// Threads that all sessions of a library share.
struct SharedPool {
  int intra_op_threads = 0;  // 0: as many as CPUs
  int inter_op_threads = 0;  // likewise
  bool spins = false;        // idle threads busy-wait for a while
};

// ONNX Runtime's library, opened once for a path, and its environment with the threads that
// sessions share. The library is never closed, because it does not support that. Thread-safe.
class OnnxRuntime {
 public:
  // Throws kUnsupported with the remedy if the library is missing, is another library, or is older
  // than the API that is called.
  OnnxRuntime(const OnnxLibrary& library, const SharedPool& pool);
  OnnxRuntime(const OnnxRuntime&) = delete;
  OnnxRuntime& operator=(const OnnxRuntime&) = delete;

  const OrtApi& api() const noexcept { return *api_; }
  OrtEnv* env() const noexcept { return env_.get(); }
  // Host memory and its allocator.
  const OrtMemoryInfo* host_memory() const noexcept { return host_memory_.get(); }
  OrtAllocator* allocator() const noexcept { return allocator_; }
  // "ONNX Runtime 1.32.0 (/usr/lib/libonnxruntime.so.1)"
  const std::string& label() const noexcept { return label_; }
  const std::string& version() const noexcept { return version_; }
  // The number of shared threads.
  int shared_threads() const noexcept { return shared_threads_; }
  // "CPUExecutionProvider" and so on.
  const std::vector<std::string>& providers() const noexcept { return providers_; }

  // Throws OrtError unless the status is null; releases it.
  void Check(OrtStatus* status) const;

  // The number of current runs of all models.
  std::atomic<int>& runs() noexcept { return runs_; }
  // A server that has waited for its exit timeout ends with requests in flight, and destroys the
  // static objects of the library, which runs need. Has that wait, for some seconds at most, until
  // no run is left. The objects are destroyed in reverse order, and some are made late: to be
  // called when sessions have been made, and after the first run of each.
  static void DelayExit() noexcept;
  // Whether the process is ending, and a run that was counted just now must not begin.
  static bool IsExiting() noexcept;

 private:
  void ReadProviders();

  const OrtApi* api_;
  std::string version_;
  std::string label_;
  int shared_threads_;
  OrtHandle<OrtEnv> env_;
  OrtHandle<OrtMemoryInfo> host_memory_;
  OrtAllocator* allocator_ = nullptr;
  std::vector<std::string> providers_;
  // Of all objects, since it is needed at the end of the process.
  static std::atomic<int> runs_;
};

// Joins names with commas.
std::string JoinNames(const std::vector<std::string>& names);

}  // namespace endcap::triton
