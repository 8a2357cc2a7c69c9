// The in-process server API's functions, on the world that the test set up.

#include <cstdlib>

#include "fake_inner_handles.h"

using endcap::fake::Block;
using endcap::fake::World;

extern "C" {

TRITONSERVER_Error* TRITONSERVER_ErrorNew(TRITONSERVER_Error_Code code, const char* message) {
  return new TRITONSERVER_Error{code, message};
}
void TRITONSERVER_ErrorDelete(TRITONSERVER_Error* error) { delete error; }
TRITONSERVER_Error_Code TRITONSERVER_ErrorCode(TRITONSERVER_Error* error) { return error->code; }
const char* TRITONSERVER_ErrorMessage(TRITONSERVER_Error* error) { return error->message.c_str(); }
TRITONSERVER_Error* TRITONSERVER_MessageSerializeToJson(TRITONSERVER_Message* message,
                                                        const char** json, size_t* size) {
  *json = message->json.data();
  *size = message->json.size();
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_MessageDelete(TRITONSERVER_Message* message) {
  delete message;
  return nullptr;
}
bool TRITONSERVER_LogIsEnabled(TRITONSERVER_LogLevel /*level*/) { return false; }
TRITONSERVER_Error* TRITONSERVER_LogMessage(TRITONSERVER_LogLevel /*level*/, const char* /*file*/,
                                            int /*line*/, const char* /*text*/) {
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelServer(TRITONBACKEND_Model* /*model*/,
                                              TRITONSERVER_Server** server) {
  *server = nullptr;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelBackend(TRITONBACKEND_Model* /*model*/,
                                               TRITONBACKEND_Backend** backend) {
  *backend = nullptr;
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_ServerModelIsReady(TRITONSERVER_Server* /*server*/,
                                                    const char* model, int64_t /*version*/,
                                                    bool* ready) {
  *ready = model != World().missing_model;
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_ServerModelConfig(TRITONSERVER_Server* /*server*/,
                                                   const char* model, int64_t /*version*/,
                                                   uint32_t /*config_version*/,
                                                   TRITONSERVER_Message** config) {
  if (model == World().missing_model) {
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_NOT_FOUND, "unknown model");
  }
  *config = new TRITONSERVER_Message{R"({"max_batch_size": 4, "output": [{"name": "sums"}]})"};
  return nullptr;
}

TRITONSERVER_Error* TRITONSERVER_ResponseAllocatorNew(
    TRITONSERVER_ResponseAllocator** allocator, TRITONSERVER_ResponseAllocatorAllocFn_t allocate,
    TRITONSERVER_ResponseAllocatorReleaseFn_t release,
    TRITONSERVER_ResponseAllocatorStartFn_t /*start*/) {
  *allocator = new TRITONSERVER_ResponseAllocator{allocate, release};
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_ResponseAllocatorSetQueryFunction(
    TRITONSERVER_ResponseAllocator* allocator, TRITONSERVER_ResponseAllocatorQueryFn_t query) {
  allocator->query = query;
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_ResponseAllocatorDelete(
    TRITONSERVER_ResponseAllocator* allocator) {
  delete allocator;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_BackendMemoryManager(TRITONBACKEND_Backend* /*backend*/,
                                                       TRITONBACKEND_MemoryManager** manager) {
  *manager = nullptr;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_MemoryManagerAllocate(TRITONBACKEND_MemoryManager* /*manager*/,
                                                        void** buffer,
                                                        TRITONSERVER_MemoryType /*memory_type*/,
                                                        int64_t /*memory_type_id*/,
                                                        uint64_t bytes) {
  if (World().gpu_memory_is_full) {
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "no memory");
  }
  ++World().gpu_blocks;
  *buffer = std::malloc(bytes);
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_MemoryManagerFree(TRITONBACKEND_MemoryManager* /*manager*/,
                                                    void* buffer,
                                                    TRITONSERVER_MemoryType /*memory_type*/,
                                                    int64_t /*memory_type_id*/) {
  --World().gpu_blocks;
  std::free(buffer);
  return nullptr;
}

TRITONSERVER_Error* TRITONSERVER_InferenceRequestNew(TRITONSERVER_InferenceRequest** request,
                                                     TRITONSERVER_Server* /*server*/,
                                                     const char* model, int64_t /*version*/) {
  if (model == World().missing_model) {
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_NOT_FOUND, "unknown model");
  }
  *request = new TRITONSERVER_InferenceRequest{};
  (*request)->content.model = model;
  ++World().requests;
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_InferenceRequestDelete(TRITONSERVER_InferenceRequest* request) {
  --World().requests;
  delete request;
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_InferenceRequestSetId(TRITONSERVER_InferenceRequest* /*request*/,
                                                       const char* /*id*/) {
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_InferenceRequestSetTimeoutMicroseconds(
    TRITONSERVER_InferenceRequest* /*request*/, uint64_t /*timeout_us*/) {
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_InferenceRequestAddInput(TRITONSERVER_InferenceRequest* request,
                                                          const char* name,
                                                          TRITONSERVER_DataType /*data_type*/,
                                                          const int64_t* /*shape*/,
                                                          uint64_t /*rank*/) {
  request->content.inputs[name];
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_InferenceRequestAppendInputData(
    TRITONSERVER_InferenceRequest* request, const char* name, const void* data, size_t bytes,
    TRITONSERVER_MemoryType memory_type, int64_t /*memory_type_id*/) {
  request->content.inputs[name].push_back({data, bytes, memory_type});
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_InferenceRequestAddRequestedOutput(
    TRITONSERVER_InferenceRequest* request, const char* name) {
  request->content.outputs.emplace_back(name);
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_InferenceRequestSetReleaseCallback(
    TRITONSERVER_InferenceRequest* request, TRITONSERVER_InferenceRequestReleaseFn_t release,
    void* userp) {
  request->release = release;
  request->release_userp = userp;
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_InferenceRequestSetResponseCallback(
    TRITONSERVER_InferenceRequest* request, TRITONSERVER_ResponseAllocator* allocator,
    void* allocator_userp, TRITONSERVER_InferenceResponseCompleteFn_t complete, void* userp) {
  request->allocator = allocator;
  request->allocator_userp = allocator_userp;
  request->complete = complete;
  request->complete_userp = userp;
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_ServerInferAsync(TRITONSERVER_Server* /*server*/,
                                                  TRITONSERVER_InferenceRequest* request,
                                                  TRITONSERVER_InferenceTrace* /*trace*/) {
  if (World().refuses_requests) {
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "the queue is full");
  }
  endcap::fake::Sent() = request;
  World().sent = request->content;
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_InferenceRequestCancel(
    TRITONSERVER_InferenceRequest* /*request*/) {
  World().sent.cancelled = true;
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_InferenceResponseError(TRITONSERVER_InferenceResponse* response) {
  return response->error.get();
}
TRITONSERVER_Error* TRITONSERVER_InferenceResponseDelete(TRITONSERVER_InferenceResponse* response) {
  for (const Block& block : response->blocks) {
    response->allocator->release(response->allocator, block.data, block.userp, block.bytes,
                                 block.memory_type, block.memory_type_id);
  }
  --World().responses;
  delete response;
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_InferenceResponseOutputCount(
    TRITONSERVER_InferenceResponse* response, uint32_t* count) {
  *count = static_cast<uint32_t>(response->blocks.size());
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_InferenceResponseOutput(
    TRITONSERVER_InferenceResponse* response, uint32_t index, const char** name,
    TRITONSERVER_DataType* data_type, const int64_t** shape, uint64_t* rank, const void** data,
    size_t* bytes, TRITONSERVER_MemoryType* memory_type, int64_t* memory_type_id,
    void** /*userp*/) {
  const Block& block = response->blocks[index];
  *name = block.name.c_str();
  *data_type = block.data_type;
  *shape = block.shape.data();
  *rank = block.shape.size();
  *data = block.data;
  *bytes = block.bytes;
  *memory_type = block.memory_type;
  *memory_type_id = block.memory_type_id;
  return nullptr;
}

}  // extern "C"
