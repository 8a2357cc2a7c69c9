#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "onnx/element_type.h"
#include "onnx/runtime.h"
#include "onnx/settings.h"

namespace endcap::triton {

// An input or output of a network.
struct NetworkTensor {
  std::string name;
  const ElementType* type;
  std::vector<int64_t> dims;  // -1: known at run time only
};

// The threads of a session.
enum class SessionThreads {
  kShared,  // those of the library
  kOne,     // the caller's alone
  kOwn,     // as many as the settings say
};

// A network that ONNX Runtime has loaded. Runs may go on at the same time.
class OnnxSession {
 public:
  // device_id: the GPU to run on; none: the CPU. Throws with the file's name and the remedy where
  // the network cannot be loaded.
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

// The sessions of one model at one place, and the choice between them. A run that begins while no
// other of the process is under way has the shared threads; others have one thread each. Results
// are the same: ONNX Runtime divides work among threads without changing the order of sums.
class SessionPair {
 public:
  // As OnnxSession.
  SessionPair(OnnxRuntime& runtime, const OnnxSettings& settings, const std::string& log_id,
              std::optional<int> device_id);

  // A session, as long as it is used for a run.
  class Lease {
   public:
    explicit Lease(SessionPair& sessions) noexcept;
    ~Lease() { End(); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

    OrtSession* session() const noexcept { return session_; }
    bool has_shared_threads() const noexcept { return shared_; }
    // The run is over; the session is not used any more.
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
  std::unique_ptr<OnnxSession> one_thread_;  // null where main_ serves all runs
  bool main_is_shared_;
};

}  // namespace endcap::triton
