#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "onnx/session.h"
#include "triton_util/model.h"

namespace endcap::triton {

// A request and its inputs.
struct NetworkRequest {
  PendingRequest* pending;
  std::vector<InputTensor> inputs;  // in the network's order
  std::vector<bool> wanted;         // for each output of the network
  int64_t item_count = 1;
};

// Reads the inputs of a request. Throws kInvalidArgument for one that is missing or does not fit.
NetworkRequest ReadNetworkRequest(PendingRequest& pending, const SessionPair& sessions,
                                  const InputReading& reading);

// Whether requests can be merged: all dimensions but the number of items are equal.
bool HaveEqualShapes(const NetworkRequest& a, const NetworkRequest& b);

// The session and options of a run.
struct RunContext {
  const OnnxRuntime& runtime;
  const SessionPair& sessions;
  OrtSession* session;
  const OrtRunOptions* options;  // may be null
  ExecutionContext execution_context;
  bool batched;
  StageCounters& counters;
};

// One call of ONNX Runtime for one request, or for several with equal shapes. The inputs of a
// single request are read in the server's memory, and its outputs of known shape are written into
// the response; all others are copied.
class NetworkRun {
 public:
  NetworkRun(const RunContext& context, std::span<NetworkRequest> requests);

  // Runs the network. Throws OrtError, Error and ApiError; responses of merged requests have no
  // outputs then.
  void Run();
  // Adds the outputs that Run has not written to the response of the n-th request.
  void AddOutputs(size_t request);

 private:
  struct Output {
    const NetworkTensor* tensor;
    OrtHandle<OrtValue> value;
    bool in_response = false;  // the run writes it into the response
  };

  void BindInput(size_t index);
  OrtHandle<OrtValue> MakeStrings(const NetworkTensor& tensor, std::span<const int64_t> shape,
                                  size_t index);
  OrtHandle<OrtValue> WrapMemory(const NetworkTensor& tensor, std::span<const int64_t> shape,
                                 const void* data, size_t bytes, const MemoryPlace& place);
  Bytes GatherInput(size_t index);
  void BindOutput(const NetworkTensor& tensor);
  bool BindResponse(const NetworkTensor& tensor, Output& output);
  void TakeOutputs();
  void AddStrings(NetworkRequest& request, const Output& output, std::span<const int64_t> shape,
                  size_t first, size_t count);

  RunContext context_;
  std::span<NetworkRequest> requests_;
  int64_t item_count_ = 0;
  OrtHandle<OrtIoBinding> binding_;
  std::vector<OrtHandle<OrtMemoryInfo>> memory_infos_;
  std::vector<OrtHandle<OrtValue>> inputs_;
  std::vector<std::vector<std::byte>> gathered_;
  std::vector<Output> outputs_;  // those that at least one request wants
};

}  // namespace endcap::triton
