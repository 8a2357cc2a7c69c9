// Triton's functions on requests and responses.

#include "fake_triton_handles.h"

namespace {

const endcap::fake::OutputPolicy& GetPolicy(const TRITONBACKEND_Request* request,
                                            const std::string& output) {
  static const endcap::fake::OutputPolicy as_requested;
  const auto found = request->given->policies.find(output);
  return found == request->given->policies.end() ? as_requested : found->second;
}

}  // namespace

using endcap::fake::NewMemory;

extern "C" {

TRITONSERVER_Error* TRITONBACKEND_RequestId(TRITONBACKEND_Request* /*request*/, const char** id) {
  *id = "";
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_RequestIsCancelled(TRITONBACKEND_Request* /*request*/,
                                                     bool* is_cancelled) {
  *is_cancelled = false;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_InferenceRequestTimeoutMicroseconds(
    TRITONBACKEND_Request* /*request*/, uint64_t* timeout_us) {
  *timeout_us = 0;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_RequestCorrelationId(TRITONBACKEND_Request* /*request*/,
                                                       uint64_t* id) {
  *id = 0;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_RequestCorrelationIdString(TRITONBACKEND_Request* /*request*/,
                                                             const char** id) {
  *id = "";
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_RequestFlags(TRITONBACKEND_Request* /*request*/,
                                               uint32_t* flags) {
  *flags = 0;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_RequestInputCount(TRITONBACKEND_Request* request,
                                                    uint32_t* count) {
  *count = static_cast<uint32_t>(request->inputs.size());
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_RequestInputByIndex(TRITONBACKEND_Request* request,
                                                      uint32_t index, TRITONBACKEND_Input** input) {
  *input = &request->inputs[index];
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_RequestOutputCount(TRITONBACKEND_Request* request,
                                                     uint32_t* count) {
  *count = static_cast<uint32_t>(request->given->outputs.size());
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_RequestOutputName(TRITONBACKEND_Request* request, uint32_t index,
                                                    const char** name) {
  *name = request->given->outputs[index].c_str();
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_RequestOutputBufferProperties(TRITONBACKEND_Request* request,
                                                                const char* name,
                                                                size_t* /*byte_size*/,
                                                                TRITONSERVER_MemoryType* type,
                                                                int64_t* /*memory_type_id*/) {
  request->requested[name] = *type;
  *type = GetPolicy(request, name).promised.value_or(*type);
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_RequestRelease(TRITONBACKEND_Request* request,
                                                 uint32_t /*flags*/) {
  // Notified under the lock, because the request may be destroyed as soon as it is released.
  const std::scoped_lock lock(endcap::fake::SharedState().mutex);
  ++request->releases;
  endcap::fake::SharedState().released.notify_all();
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_InputProperties(TRITONBACKEND_Input* input, const char** name,
                                                  TRITONSERVER_DataType* data_type,
                                                  const int64_t** shape, uint32_t* rank,
                                                  uint64_t* size_bytes, uint32_t* buffer_count) {
  const endcap::fake::Input& given = *input->given;
  uint64_t total = 0;
  for (const auto& buffer : given.buffers) total += buffer.bytes;
  if (name != nullptr) *name = given.name.c_str();
  if (data_type != nullptr) *data_type = given.data_type;
  if (shape != nullptr) *shape = given.shape.data();
  if (rank != nullptr) *rank = static_cast<uint32_t>(given.shape.size());
  if (size_bytes != nullptr) *size_bytes = total;
  if (buffer_count != nullptr) *buffer_count = static_cast<uint32_t>(given.buffers.size());
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_InputBuffer(TRITONBACKEND_Input* input, uint32_t index,
                                              const void** buffer, uint64_t* size_bytes,
                                              TRITONSERVER_MemoryType* memory_type,
                                              int64_t* memory_type_id) {
  const endcap::fake::Buffer& given = input->given->buffers[index];
  *buffer = given.memory.get();
  *size_bytes = given.bytes;
  *memory_type = given.type;
  *memory_type_id = 0;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ResponseNew(TRITONBACKEND_Response** response,
                                              TRITONBACKEND_Request* request) {
  *response = new TRITONBACKEND_Response{request, {}};
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ResponseDelete(TRITONBACKEND_Response* response) {
  delete response;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ResponseOutput(TRITONBACKEND_Response* response,
                                                 TRITONBACKEND_Output** output, const char* name,
                                                 TRITONSERVER_DataType /*data_type*/,
                                                 const int64_t* shape, uint32_t rank) {
  auto& owner = response->outputs.emplace_back(std::make_unique<TRITONBACKEND_Output>());
  owner->request = response->request;
  owner->name = name;
  owner->result.shape.assign(shape, shape + rank);
  owner->result.requested = response->request->requested[name];
  *output = owner.get();
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_OutputBuffer(TRITONBACKEND_Output* output, void** buffer,
                                               uint64_t size_bytes,
                                               TRITONSERVER_MemoryType* memory_type,
                                               int64_t* memory_type_id) {
  *memory_type = GetPolicy(output->request, output->name).provided.value_or(*memory_type);
  *memory_type_id = 0;
  output->result.buffer = {NewMemory(size_bytes, *memory_type), size_bytes, *memory_type};
  *buffer = output->result.buffer.memory.get();
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ResponseSend(TRITONBACKEND_Response* response, uint32_t /*flags*/,
                                               TRITONSERVER_Error* error) {
  const std::unique_ptr<TRITONBACKEND_Response> owner(response);
  ++response->request->responses;
  endcap::fake::Response& sent = response->request->response;
  if (error != nullptr) {
    sent.error = error->message;
    sent.error_code = error->code;
  }
  for (auto& output : response->outputs) {
    sent.outputs[output->name] = std::move(output->result);
  }
  return nullptr;
}

}  // extern "C"
