#include "fake_composing_models.h"

#include <cstdlib>
#include <cstring>
#include <memory>

// The objects of the API.

struct TRITONSERVER_Error {
  TRITONSERVER_Error_Code code;
  std::string message;
};
struct TRITONSERVER_Message {
  std::string json;
};
struct TRITONSERVER_ResponseAllocator {
  TRITONSERVER_ResponseAllocatorAllocFn_t allocate;
  TRITONSERVER_ResponseAllocatorReleaseFn_t release;
  TRITONSERVER_ResponseAllocatorQueryFn_t query = nullptr;
};
struct TRITONSERVER_InferenceRequest {
  TRITONSERVER_ResponseAllocator* allocator = nullptr;
  void* allocator_userp = nullptr;
  TRITONSERVER_InferenceRequestReleaseFn_t release = nullptr;
  void* release_userp = nullptr;
  TRITONSERVER_InferenceResponseCompleteFn_t complete = nullptr;
  void* complete_userp = nullptr;
};

namespace endcap::fake {

// One output in the memory that the caller allocated.
struct Block {
  std::string name;
  std::vector<int64_t> shape;
  TRITONSERVER_DataType data_type = TRITONSERVER_TYPE_INT32;
  void* data = nullptr;
  void* userp = nullptr;
  size_t bytes = 0;
  TRITONSERVER_MemoryType memory_type = TRITONSERVER_MEMORY_CPU;
  int64_t memory_type_id = 0;
};

}  // namespace endcap::fake

struct TRITONSERVER_InferenceResponse {
  TRITONSERVER_ResponseAllocator* allocator;
  std::unique_ptr<TRITONSERVER_Error> error;
  std::vector<endcap::fake::Block> blocks;
};

namespace endcap::fake {
namespace {

// The request that was sent last.
TRITONSERVER_InferenceRequest*& Sent() {
  static TRITONSERVER_InferenceRequest* sent = nullptr;
  return sent;
}

Block WriteOutput(const TRITONSERVER_InferenceRequest& request, const WrittenOutput& output) {
  Block block{output.name, output.shape, output.data_type};
  if (block.shape.empty()) block.shape = {static_cast<int64_t>(output.values.size())};
  block.bytes = output.values.size() * sizeof(int32_t);
  auto promised = output.preferred;
  int64_t promised_id = 0;
  request.allocator->query(request.allocator, request.allocator_userp, output.name.c_str(),
                           &block.bytes, &promised, &promised_id);
  request.allocator->allocate(request.allocator, output.name.c_str(), block.bytes, promised,
                              promised_id, request.allocator_userp, &block.data, &block.userp,
                              &block.memory_type, &block.memory_type_id);
  std::memcpy(block.data, output.values.data(), block.bytes);
  return block;
}

}  // namespace

FakeServer& GetServer() {
  static FakeServer server;
  return server;
}

void Respond(const FakeResponse& given) {
  TRITONSERVER_InferenceRequest* sent = Sent();
  const uint32_t flags = given.final ? TRITONSERVER_RESPONSE_COMPLETE_FINAL : 0;
  if (!given.response) {
    sent->complete(nullptr, flags, sent->complete_userp);
    return;
  }
  auto* response = new TRITONSERVER_InferenceResponse{sent->allocator, nullptr, {}};
  ++GetServer().responses;
  if (!given.error.empty()) {
    response->error.reset(new TRITONSERVER_Error{TRITONSERVER_ERROR_UNSUPPORTED, given.error});
  }
  for (const WrittenOutput& output : given.outputs) {
    response->blocks.push_back(WriteOutput(*sent, output));
  }
  sent->complete(response, flags, sent->complete_userp);
}

void ReleaseSent() {
  Sent()->release(Sent(), TRITONSERVER_REQUEST_RELEASE_ALL, Sent()->release_userp);
}

}  // namespace endcap::fake

using endcap::fake::Block;
using endcap::fake::GetServer;
using endcap::fake::Sent;

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
  *ready = model != GetServer().missing_model;
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_ServerModelConfig(TRITONSERVER_Server* /*server*/,
                                                   const char* model, int64_t /*version*/,
                                                   uint32_t /*config_version*/,
                                                   TRITONSERVER_Message** config) {
  if (model == GetServer().missing_model) {
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
  if (GetServer().gpu_memory_is_full) {
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "no memory");
  }
  ++GetServer().gpu_blocks;
  *buffer = std::malloc(bytes);
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_MemoryManagerFree(TRITONBACKEND_MemoryManager* /*manager*/,
                                                    void* buffer,
                                                    TRITONSERVER_MemoryType /*memory_type*/,
                                                    int64_t /*memory_type_id*/) {
  --GetServer().gpu_blocks;
  std::free(buffer);
  return nullptr;
}

TRITONSERVER_Error* TRITONSERVER_InferenceRequestNew(TRITONSERVER_InferenceRequest** request,
                                                     TRITONSERVER_Server* /*server*/,
                                                     const char* model, int64_t /*version*/) {
  if (model == GetServer().missing_model) {
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_NOT_FOUND, "unknown model");
  }
  *request = new TRITONSERVER_InferenceRequest{};
  ++GetServer().requests;
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_InferenceRequestDelete(TRITONSERVER_InferenceRequest* request) {
  --GetServer().requests;
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
TRITONSERVER_Error* TRITONSERVER_InferenceRequestAddInput(
    TRITONSERVER_InferenceRequest* /*request*/, const char* /*name*/,
    TRITONSERVER_DataType /*data_type*/, const int64_t* /*shape*/, uint64_t /*rank*/) {
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_InferenceRequestAppendInputData(
    TRITONSERVER_InferenceRequest* /*request*/, const char* /*name*/, const void* /*data*/,
    size_t /*bytes*/, TRITONSERVER_MemoryType /*memory_type*/, int64_t /*memory_type_id*/) {
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_InferenceRequestAddRequestedOutput(
    TRITONSERVER_InferenceRequest* /*request*/, const char* /*name*/) {
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
  if (GetServer().refuses_requests) {
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "the queue is full");
  }
  Sent() = request;
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_InferenceRequestCancel(
    TRITONSERVER_InferenceRequest* /*request*/) {
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
  --GetServer().responses;
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
