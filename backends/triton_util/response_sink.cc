#include "triton_util/response_sink.h"

#include <algorithm>
#include <string>
#include <vector>

#include "endcap/error.h"
#include "triton_util/data_type.h"
#include "triton_util/log.h"

namespace endcap::triton {

TRITONBACKEND_Response* ResponseSink::Current() {
  if (response_ == nullptr) {
    TRITONBACKEND_Response* raw = nullptr;
    Check(TRITONBACKEND_ResponseNew(&raw, request_));
    response_.reset(raw);
  }
  return response_.get();
}

OutputMemory ResponseSink::AddOutput(std::string_view name, TRITONSERVER_DataType data_type,
                                     std::span<const int64_t> shape, size_t size_bytes,
                                     const MemoryPlace& preferred) {
  const std::string text(name);
  TRITONBACKEND_Output* output = nullptr;
  Check(TRITONBACKEND_ResponseOutput(Current(), &output, text.c_str(), data_type, shape.data(),
                                     static_cast<uint32_t>(shape.size())));
  void* buffer = nullptr;
  TRITONSERVER_MemoryType memory = preferred.type();
  int64_t memory_id = preferred.device_id;
  Check(TRITONBACKEND_OutputBuffer(output, &buffer, size_bytes, &memory, &memory_id));
  if (!IsAligned(buffer, data_type)) {
    throw Error(ErrorCode::kInvalidArgument,
                "output '" + text +
                    "' was given memory at an address that is not a multiple of its element size: "
                    "give it an offset in the shared memory region that is a multiple of 4");
  }
  return {buffer, MemoryPlace::FromTriton(memory, memory_id)};
}

OutputMemory ResponseSink::AddOutput(const TensorSpec& spec, int64_t item_count, bool batched,
                                     const MemoryPlace& preferred) {
  std::vector<int64_t> shape(spec.shape.begin(), spec.shape.begin() + spec.rank);
  if (batched) shape.insert(shape.begin(), item_count);
  return AddOutput(spec.name, ToTriton(spec.dtype), shape, CountBytes(spec, item_count), preferred);
}

void ResponseSink::Send() {
  TRITONBACKEND_Response* response = Current();
  // The call owns the response from here on, whatever it returns.
  sent_ = true;
  static_cast<void>(response_.release());
  Check(TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, nullptr));
  succeeded_ = true;
}

void ResponseSink::Fail(const Failure& failure) noexcept {
  if (sent_) return;
  sent_ = true;
  const ErrorHandle unsendable(Guard([&] {
    const ErrorHandle error(TRITONSERVER_ErrorNew(failure.code, Describe(failure).c_str()));
    TRITONBACKEND_Response* response = Current();
    static_cast<void>(response_.release());
    Check(TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, error.get()));
  }));
  if (unsendable != nullptr) {
    Log(TRITONSERVER_LOG_ERROR, TRITONSERVER_ErrorMessage(unsendable.get()));
  }
}

}  // namespace endcap::triton
