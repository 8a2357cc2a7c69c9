#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "onnx/onnxruntime_api.h"
#include "onnx/runtime.h"
#include "onnx/settings.h"
#include "triton_util/triton_api.h"

namespace endcap::triton {

// An element type that both ONNX Runtime and Triton have.
struct ElementType {
  ONNXTensorElementDataType onnx;
  TRITONSERVER_DataType triton;
  std::string_view config_name;  // in config.pbtxt
  size_t size;                   // bytes; 0 for strings

  bool is_string() const noexcept { return size == 0; }
};

// An input or output of a network.
struct NetworkTensor {
  std::string name;
  const ElementType* type;
  std::vector<int64_t> dims;  // -1: known at run time only
};

// The threads of a session.
enum class SessionThreads {
  kShared,  // those of the library
  kOne,     // the calling thread only
  kOwn,     // own threads, as many as the settings say
};

// A network that ONNX Runtime has loaded. Thread-safe: runs may be concurrent.
class OnnxSession {
 public:
  // device_id: the GPU to run on; none: the CPU. Throws with the file's name and the remedy if the
  // network cannot be loaded.
  OnnxSession(const OnnxRuntime& runtime, const OnnxSettings& settings, const std::string& log_id,
              SessionThreads threads, std::optional<int> device_id);

  OrtSession* handle() const noexcept { return session_.get(); }
  const std::vector<NetworkTensor>& inputs() const noexcept { return inputs_; }
  const std::vector<NetworkTensor>& outputs() const noexcept { return outputs_; }

 private:
  OrtHandle<OrtSession> session_;
  std::vector<NetworkTensor> inputs_;
  std::vector<NetworkTensor> outputs_;
};

// The sessions of one model on one device. A run that begins while no other runs in the process
// has the shared threads; any other has one thread. The results are equal, because ONNX Runtime
// divides work among threads without changing the order of sums. Thread-safe.
class SessionPair {
 public:
  // As OnnxSession.
  SessionPair(OnnxRuntime& runtime, const OnnxSettings& settings, const std::string& log_id,
              std::optional<int> device_id);

  // The session for one run.
  class Lease {
   public:
    explicit Lease(SessionPair& sessions) noexcept;
    ~Lease() { End(); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

    OrtSession* session() const noexcept { return session_; }
    bool has_shared_threads() const noexcept { return shared_; }
    // Ends the use of the session.
    void End() noexcept;

   private:
    SessionPair& sessions_;
    bool shared_;
    bool ended_ = false;
    OrtSession* session_;
  };

  OnnxRuntime& runtime() const noexcept { return runtime_; }
  const std::vector<NetworkTensor>& inputs() const noexcept { return main_.inputs(); }
  const std::vector<NetworkTensor>& outputs() const noexcept { return main_.outputs(); }

 private:
  OnnxRuntime& runtime_;
  OnnxSession main_;
  std::unique_ptr<OnnxSession> one_thread_;  // null: main_ serves all runs
  bool main_is_shared_;
};

}  // namespace endcap::triton
