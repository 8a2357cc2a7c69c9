#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "endcap/error.h"
#include "onnx/onnxruntime_api.h"

namespace endcap::triton {

// Owner of an object of ONNX Runtime, with the function that releases it.
template <typename T>
using OrtHandle = std::unique_ptr<T, void (*)(T*)>;

// A failure that ONNX Runtime reported, with its own code beside endcap's.
class OrtError : public Error {
 public:
  OrtError(OrtErrorCode ort_code, const std::string& message);
  OrtErrorCode ort_code() const noexcept { return ort_code_; }

 private:
  OrtErrorCode ort_code_;
};

// The shared library of ONNX Runtime, as it was found.
struct OnnxLibrary {
  std::string path;
  std::string origin;  // who named the path, for messages
};

// Threads that all sessions of a library share.
struct SharedPool {
  int intra_op_threads = 0;  // 0: as many as CPUs
  int inter_op_threads = 0;  // likewise
  bool spins = false;        // threads without work keep their CPU busy for a while
};

// ONNX Runtime's library, opened once for a path, with its environment, which holds the threads
// that sessions share. The library stays open: it is not made for being closed. Thread-safe.
class OnnxRuntime {
 public:
  // Throws kUnsupported with the remedy when the library is missing, is no ONNX Runtime, or is
  // older than the API that is called.
  OnnxRuntime(const OnnxLibrary& library, const SharedPool& pool);
  OnnxRuntime(const OnnxRuntime&) = delete;
  OnnxRuntime& operator=(const OnnxRuntime&) = delete;

  const OrtApi& api() const noexcept { return *api_; }
  OrtEnv* env() const noexcept { return env_.get(); }
  // Memory of the host, and what allocates there.
  const OrtMemoryInfo* host_memory() const noexcept { return host_memory_.get(); }
  OrtAllocator* allocator() const noexcept { return allocator_; }
  // "ONNX Runtime 1.32.0 (/usr/lib/libonnxruntime.so.1)"
  const std::string& label() const noexcept { return label_; }
  const std::string& version() const noexcept { return version_; }
  // Threads that work on one run with the shared threads.
  int shared_threads() const noexcept { return shared_threads_; }
  // "CPUExecutionProvider" and so on.
  const std::vector<std::string>& providers() const noexcept { return providers_; }

  // Throws OrtError for a status that is a failure, and releases it.
  void Check(OrtStatus* status) const;

  // Runs of all models that are under way.
  std::atomic<int>& runs() noexcept { return runs_; }

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
  std::atomic<int> runs_{0};
};

// Copies `names`, with commas between.
std::string JoinNames(const std::vector<std::string>& names);

}  // namespace endcap::triton
