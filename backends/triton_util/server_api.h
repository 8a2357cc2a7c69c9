#pragma once

// The part of Triton's in-process server API that a backend needs to call other models. As in
// triton_api.h the server process provides the functions.

#include <cstddef>
#include <cstdint>

#include "triton_util/triton_api.h"

extern "C" {

struct TRITONSERVER_InferenceRequest;
struct TRITONSERVER_InferenceResponse;
struct TRITONSERVER_InferenceTrace;
struct TRITONSERVER_ResponseAllocator;
struct TRITONSERVER_Server;
struct TRITONBACKEND_MemoryManager;

// What the server calls back.
using TRITONSERVER_ResponseAllocatorAllocFn_t = TRITONSERVER_Error* (*)(
    TRITONSERVER_ResponseAllocator* allocator, const char* tensor, size_t bytes,
    TRITONSERVER_MemoryType memory_type, int64_t memory_type_id, void* userp, void** buffer,
    void** buffer_userp, TRITONSERVER_MemoryType* actual_memory_type,
    int64_t* actual_memory_type_id);
using TRITONSERVER_ResponseAllocatorReleaseFn_t = TRITONSERVER_Error* (*)(
    TRITONSERVER_ResponseAllocator* allocator, void* buffer, void* buffer_userp, size_t bytes,
    TRITONSERVER_MemoryType memory_type, int64_t memory_type_id);
using TRITONSERVER_ResponseAllocatorStartFn_t =
    TRITONSERVER_Error* (*)(TRITONSERVER_ResponseAllocator* allocator, void* userp);
using TRITONSERVER_ResponseAllocatorQueryFn_t = TRITONSERVER_Error* (*)(
    TRITONSERVER_ResponseAllocator* allocator, void* userp, const char* tensor, size_t* bytes,
    TRITONSERVER_MemoryType* memory_type, int64_t* memory_type_id);
using TRITONSERVER_InferenceRequestReleaseFn_t = void (*)(TRITONSERVER_InferenceRequest* request,
                                                          uint32_t flags, void* userp);
using TRITONSERVER_InferenceResponseCompleteFn_t =
    void (*)(TRITONSERVER_InferenceResponse* response, uint32_t flags, void* userp);

// The server and its models. A version of -1 is the newest.
TRITONSERVER_Error* TRITONBACKEND_ModelServer(TRITONBACKEND_Model* model,
                                              TRITONSERVER_Server** server);
TRITONSERVER_Error* TRITONSERVER_ServerModelIsReady(TRITONSERVER_Server* server, const char* model,
                                                    int64_t version, bool* ready);
TRITONSERVER_Error* TRITONSERVER_ServerModelConfig(TRITONSERVER_Server* server, const char* model,
                                                   int64_t version, uint32_t config_version,
                                                   TRITONSERVER_Message** config);

// Memory for responses.
TRITONSERVER_Error* TRITONSERVER_ResponseAllocatorNew(
    TRITONSERVER_ResponseAllocator** allocator, TRITONSERVER_ResponseAllocatorAllocFn_t allocate,
    TRITONSERVER_ResponseAllocatorReleaseFn_t release,
    TRITONSERVER_ResponseAllocatorStartFn_t start);
TRITONSERVER_Error* TRITONSERVER_ResponseAllocatorSetQueryFunction(
    TRITONSERVER_ResponseAllocator* allocator, TRITONSERVER_ResponseAllocatorQueryFn_t query);
TRITONSERVER_Error* TRITONSERVER_ResponseAllocatorDelete(TRITONSERVER_ResponseAllocator* allocator);
TRITONSERVER_Error* TRITONBACKEND_BackendMemoryManager(TRITONBACKEND_Backend* backend,
                                                       TRITONBACKEND_MemoryManager** manager);
TRITONSERVER_Error* TRITONBACKEND_MemoryManagerAllocate(TRITONBACKEND_MemoryManager* manager,
                                                        void** buffer,
                                                        TRITONSERVER_MemoryType memory_type,
                                                        int64_t memory_type_id, uint64_t bytes);
TRITONSERVER_Error* TRITONBACKEND_MemoryManagerFree(TRITONBACKEND_MemoryManager* manager,
                                                    void* buffer,
                                                    TRITONSERVER_MemoryType memory_type,
                                                    int64_t memory_type_id);

// Requests to other models.
TRITONSERVER_Error* TRITONSERVER_InferenceRequestNew(TRITONSERVER_InferenceRequest** request,
                                                     TRITONSERVER_Server* server, const char* model,
                                                     int64_t version);
TRITONSERVER_Error* TRITONSERVER_InferenceRequestDelete(TRITONSERVER_InferenceRequest* request);
TRITONSERVER_Error* TRITONSERVER_InferenceRequestSetId(TRITONSERVER_InferenceRequest* request,
                                                       const char* id);
TRITONSERVER_Error* TRITONSERVER_InferenceRequestSetTimeoutMicroseconds(
    TRITONSERVER_InferenceRequest* request, uint64_t timeout_us);
TRITONSERVER_Error* TRITONSERVER_InferenceRequestAddInput(TRITONSERVER_InferenceRequest* request,
                                                          const char* name,
                                                          TRITONSERVER_DataType data_type,
                                                          const int64_t* shape, uint64_t rank);
// The memory stays the caller's, who keeps it until the request is released.
TRITONSERVER_Error* TRITONSERVER_InferenceRequestAppendInputData(
    TRITONSERVER_InferenceRequest* request, const char* name, const void* data, size_t bytes,
    TRITONSERVER_MemoryType memory_type, int64_t memory_type_id);
TRITONSERVER_Error* TRITONSERVER_InferenceRequestAddRequestedOutput(
    TRITONSERVER_InferenceRequest* request, const char* name);
TRITONSERVER_Error* TRITONSERVER_InferenceRequestSetReleaseCallback(
    TRITONSERVER_InferenceRequest* request, TRITONSERVER_InferenceRequestReleaseFn_t release,
    void* userp);
TRITONSERVER_Error* TRITONSERVER_InferenceRequestSetResponseCallback(
    TRITONSERVER_InferenceRequest* request, TRITONSERVER_ResponseAllocator* allocator,
    void* allocator_userp, TRITONSERVER_InferenceResponseCompleteFn_t complete, void* userp);
// Takes the request where it succeeds, and gives it back by the release callback.
TRITONSERVER_Error* TRITONSERVER_ServerInferAsync(TRITONSERVER_Server* server,
                                                  TRITONSERVER_InferenceRequest* request,
                                                  TRITONSERVER_InferenceTrace* trace);
TRITONSERVER_Error* TRITONSERVER_InferenceRequestCancel(TRITONSERVER_InferenceRequest* request);
// The time that the client of the request that is served gave it; 0: no limit.
TRITONSERVER_Error* TRITONBACKEND_InferenceRequestTimeoutMicroseconds(
    TRITONBACKEND_Request* request, uint64_t* timeout_us);

// Responses of other models. The error belongs to the response.
TRITONSERVER_Error* TRITONSERVER_InferenceResponseError(TRITONSERVER_InferenceResponse* response);
TRITONSERVER_Error* TRITONSERVER_InferenceResponseDelete(TRITONSERVER_InferenceResponse* response);
TRITONSERVER_Error* TRITONSERVER_InferenceResponseOutputCount(
    TRITONSERVER_InferenceResponse* response, uint32_t* count);
TRITONSERVER_Error* TRITONSERVER_InferenceResponseOutput(
    TRITONSERVER_InferenceResponse* response, uint32_t index, const char** name,
    TRITONSERVER_DataType* data_type, const int64_t** shape, uint64_t* rank, const void** data,
    size_t* bytes, TRITONSERVER_MemoryType* memory_type, int64_t* memory_type_id, void** userp);

}  // extern "C"
