#pragma once

// The part of ONNX Runtime's C API that the backend calls. The API is a table of functions that
// grows at its end only; the library is opened at run time, so that nothing of it is linked or
// included. Entries that are not called are gaps of void*; the assertions below check the offsets.

#include <cstddef>
#include <cstdint>

extern "C" {

// The table of ONNX Runtime 1.16, the oldest release that is accepted.
#define ENDCAP_ORT_API_VERSION 16
#define ENDCAP_ORT_OLDEST_RELEASE "1.16"

struct OrtAllocator;
struct OrtCUDAProviderOptionsV2;
struct OrtEnv;
struct OrtIoBinding;
struct OrtMemoryInfo;
struct OrtRunOptions;
struct OrtSession;
struct OrtSessionOptions;
struct OrtStatus;
struct OrtTensorRTProviderOptionsV2;
struct OrtTensorTypeAndShapeInfo;
struct OrtThreadingOptions;
struct OrtTypeInfo;
struct OrtValue;

enum ONNXTensorElementDataType {
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED = 0,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT = 1,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8 = 2,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8 = 3,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16 = 4,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16 = 5,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32 = 6,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 = 7,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING = 8,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL = 9,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16 = 10,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE = 11,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32 = 12,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64 = 13,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16 = 16
};

enum ONNXType { ONNX_TYPE_UNKNOWN = 0, ONNX_TYPE_TENSOR = 1 };

enum OrtErrorCode {
  ORT_OK = 0,
  ORT_FAIL = 1,
  ORT_INVALID_ARGUMENT = 2,
  ORT_NO_SUCHFILE = 3,
  ORT_NO_MODEL = 4,
  ORT_ENGINE_ERROR = 5,
  ORT_RUNTIME_EXCEPTION = 6,
  ORT_INVALID_PROTOBUF = 7,
  ORT_MODEL_LOADED = 8,
  ORT_NOT_IMPLEMENTED = 9,
  ORT_INVALID_GRAPH = 10,
  ORT_EP_FAIL = 11
};

enum OrtLoggingLevel {
  ORT_LOGGING_LEVEL_VERBOSE = 0,
  ORT_LOGGING_LEVEL_INFO = 1,
  ORT_LOGGING_LEVEL_WARNING = 2,
  ORT_LOGGING_LEVEL_ERROR = 3,
  ORT_LOGGING_LEVEL_FATAL = 4
};

enum GraphOptimizationLevel {
  ORT_DISABLE_ALL = 0,
  ORT_ENABLE_BASIC = 1,
  ORT_ENABLE_EXTENDED = 2,
  ORT_ENABLE_ALL = 99
};

enum ExecutionMode { ORT_SEQUENTIAL = 0, ORT_PARALLEL = 1 };
enum OrtAllocatorType { OrtDeviceAllocator = 0, OrtArenaAllocator = 1 };
enum OrtMemType { OrtMemTypeDefault = 0 };

typedef void (*OrtLoggingFunction)(void* param, OrtLoggingLevel severity, const char* category,
                                   const char* logid, const char* code_location,
                                   const char* message);

// Functions that return an OrtStatus* return null for success; the caller releases it.
struct OrtApi {
  void* gap_0[1];
  OrtErrorCode (*GetErrorCode)(const OrtStatus* status);
  const char* (*GetErrorMessage)(const OrtStatus* status);
  void* gap_3[4];
  OrtStatus* (*CreateSession)(const OrtEnv* env, const char* model_path,
                              const OrtSessionOptions* options, OrtSession** out);
  void* gap_8[2];
  OrtStatus* (*CreateSessionOptions)(OrtSessionOptions** options);
  void* gap_11[2];
  OrtStatus* (*SetSessionExecutionMode)(OrtSessionOptions* options, ExecutionMode mode);
  void* gap_14[3];
  OrtStatus* (*DisableMemPattern)(OrtSessionOptions* options);
  void* gap_18[1];
  OrtStatus* (*DisableCpuMemArena)(OrtSessionOptions* options);
  OrtStatus* (*SetSessionLogId)(OrtSessionOptions* options, const char* logid);
  void* gap_21[2];
  OrtStatus* (*SetSessionGraphOptimizationLevel)(OrtSessionOptions* options,
                                                 GraphOptimizationLevel level);
  OrtStatus* (*SetIntraOpNumThreads)(OrtSessionOptions* options, int threads);
  OrtStatus* (*SetInterOpNumThreads)(OrtSessionOptions* options, int threads);
  void* gap_26[4];
  OrtStatus* (*SessionGetInputCount)(const OrtSession* session, size_t* out);
  OrtStatus* (*SessionGetOutputCount)(const OrtSession* session, size_t* out);
  void* gap_32[1];
  OrtStatus* (*SessionGetInputTypeInfo)(const OrtSession* session, size_t index,
                                        OrtTypeInfo** type_info);
  OrtStatus* (*SessionGetOutputTypeInfo)(const OrtSession* session, size_t index,
                                         OrtTypeInfo** type_info);
  void* gap_35[1];
  OrtStatus* (*SessionGetInputName)(const OrtSession* session, size_t index,
                                    OrtAllocator* allocator, char** value);
  OrtStatus* (*SessionGetOutputName)(const OrtSession* session, size_t index,
                                     OrtAllocator* allocator, char** value);
  void* gap_38[1];
  OrtStatus* (*CreateRunOptions)(OrtRunOptions** out);
  void* gap_40[8];
  OrtStatus* (*CreateTensorAsOrtValue)(OrtAllocator* allocator, const int64_t* shape, size_t rank,
                                       ONNXTensorElementDataType type, OrtValue** out);
  OrtStatus* (*CreateTensorWithDataAsOrtValue)(const OrtMemoryInfo* info, void* data, size_t bytes,
                                               const int64_t* shape, size_t rank,
                                               ONNXTensorElementDataType type, OrtValue** out);
  void* gap_50[1];
  OrtStatus* (*GetTensorMutableData)(OrtValue* value, void** out);
  void* gap_52[1];
  OrtStatus* (*GetStringTensorDataLength)(const OrtValue* value, size_t* length);
  OrtStatus* (*GetStringTensorContent)(const OrtValue* value, void* text, size_t length,
                                       size_t* offsets, size_t offset_count);
  OrtStatus* (*CastTypeInfoToTensorInfo)(const OrtTypeInfo* type_info,
                                         const OrtTensorTypeAndShapeInfo** out);
  OrtStatus* (*GetOnnxTypeFromTypeInfo)(const OrtTypeInfo* type_info, ONNXType* out);
  void* gap_57[3];
  OrtStatus* (*GetTensorElementType)(const OrtTensorTypeAndShapeInfo* info,
                                     ONNXTensorElementDataType* out);
  OrtStatus* (*GetDimensionsCount)(const OrtTensorTypeAndShapeInfo* info, size_t* out);
  OrtStatus* (*GetDimensions)(const OrtTensorTypeAndShapeInfo* info, int64_t* dims, size_t count);
  void* gap_63[2];
  OrtStatus* (*GetTensorTypeAndShape)(const OrtValue* value, OrtTensorTypeAndShapeInfo** out);
  void* gap_66[2];
  OrtStatus* (*CreateMemoryInfo)(const char* name, OrtAllocatorType type, int id,
                                 OrtMemType mem_type, OrtMemoryInfo** out);
  void* gap_69[7];
  OrtStatus* (*AllocatorFree)(OrtAllocator* allocator, void* memory);
  void* gap_77[1];
  OrtStatus* (*GetAllocatorWithDefaultOptions)(OrtAllocator** out);
  void* gap_79[13];
  void (*ReleaseEnv)(OrtEnv* input);
  void (*ReleaseStatus)(OrtStatus* input);
  void (*ReleaseMemoryInfo)(OrtMemoryInfo* input);
  void (*ReleaseSession)(OrtSession* input);
  void (*ReleaseValue)(OrtValue* input);
  void (*ReleaseRunOptions)(OrtRunOptions* input);
  void (*ReleaseTypeInfo)(OrtTypeInfo* input);
  void (*ReleaseTensorTypeAndShapeInfo)(OrtTensorTypeAndShapeInfo* input);
  void (*ReleaseSessionOptions)(OrtSessionOptions* input);
  void* gap_101[19];
  OrtStatus* (*DisablePerSessionThreads)(OrtSessionOptions* options);
  OrtStatus* (*CreateThreadingOptions)(OrtThreadingOptions** out);
  void (*ReleaseThreadingOptions)(OrtThreadingOptions* input);
  void* gap_123[2];
  OrtStatus* (*GetAvailableProviders)(char*** names, int* count);
  OrtStatus* (*ReleaseAvailableProviders)(char** names, int count);
  void* gap_127[3];
  OrtStatus* (*AddSessionConfigEntry)(OrtSessionOptions* options, const char* key,
                                      const char* value);
  void* gap_131[2];
  OrtStatus* (*RunWithBinding)(OrtSession* session, const OrtRunOptions* options,
                               const OrtIoBinding* binding);
  OrtStatus* (*CreateIoBinding)(OrtSession* session, OrtIoBinding** out);
  void (*ReleaseIoBinding)(OrtIoBinding* input);
  OrtStatus* (*BindInput)(OrtIoBinding* binding, const char* name, const OrtValue* value);
  OrtStatus* (*BindOutput)(OrtIoBinding* binding, const char* name, const OrtValue* value);
  OrtStatus* (*BindOutputToDevice)(OrtIoBinding* binding, const char* name,
                                   const OrtMemoryInfo* info);
  void* gap_139[1];
  OrtStatus* (*GetBoundOutputValues)(const OrtIoBinding* binding, OrtAllocator* allocator,
                                     OrtValue*** output, size_t* output_count);
  void* gap_141[6];
  OrtStatus* (*SetGlobalIntraOpNumThreads)(OrtThreadingOptions* options, int threads);
  OrtStatus* (*SetGlobalInterOpNumThreads)(OrtThreadingOptions* options, int threads);
  OrtStatus* (*SetGlobalSpinControl)(OrtThreadingOptions* options, int allow_spinning);
  void* gap_150[1];
  OrtStatus* (*CreateEnvWithCustomLoggerAndGlobalThreadPools)(
      OrtLoggingFunction logging_function, void* logger_param, OrtLoggingLevel level,
      const char* logid, const OrtThreadingOptions* options, OrtEnv** out);
  void* gap_152[13];
  OrtStatus* (*AddRunConfigEntry)(OrtRunOptions* options, const char* key, const char* value);
  void* gap_166[4];
  OrtStatus* (*SessionOptionsAppendExecutionProvider_TensorRT_V2)(
      OrtSessionOptions* options, const OrtTensorRTProviderOptionsV2* tensorrt_options);
  OrtStatus* (*CreateTensorRTProviderOptions)(OrtTensorRTProviderOptionsV2** out);
  OrtStatus* (*UpdateTensorRTProviderOptions)(OrtTensorRTProviderOptionsV2* options,
                                              const char* const* keys, const char* const* values,
                                              size_t count);
  void* gap_173[1];
  void (*ReleaseTensorRTProviderOptions)(OrtTensorRTProviderOptionsV2* input);
  void* gap_175[29];
  OrtStatus* (*SessionOptionsAppendExecutionProvider_CUDA_V2)(
      OrtSessionOptions* options, const OrtCUDAProviderOptionsV2* cuda_options);
  OrtStatus* (*CreateCUDAProviderOptions)(OrtCUDAProviderOptionsV2** out);
  OrtStatus* (*UpdateCUDAProviderOptions)(OrtCUDAProviderOptionsV2* options,
                                          const char* const* keys, const char* const* values,
                                          size_t count);
  void* gap_207[1];
  void (*ReleaseCUDAProviderOptions)(OrtCUDAProviderOptionsV2* input);
  void* gap_209[43];
  OrtStatus* (*GetResizedStringTensorElementBuffer)(OrtValue* value, size_t index, size_t length,
                                                    char** buffer);
};

struct OrtApiBase {
  const OrtApi* (*GetApi)(uint32_t version);  // null if the library is older
  const char* (*GetVersionString)();
};

}  // extern "C"

#define ENDCAP_ORT_AT(entry, place) \
  static_assert(offsetof(OrtApi, entry) == (place) * sizeof(void*), #entry " is at " #place)
ENDCAP_ORT_AT(GetErrorCode, 1);
ENDCAP_ORT_AT(CreateSession, 7);
ENDCAP_ORT_AT(CreateSessionOptions, 10);
ENDCAP_ORT_AT(SetSessionExecutionMode, 13);
ENDCAP_ORT_AT(DisableMemPattern, 17);
ENDCAP_ORT_AT(DisableCpuMemArena, 19);
ENDCAP_ORT_AT(SetSessionGraphOptimizationLevel, 23);
ENDCAP_ORT_AT(SessionGetInputCount, 30);
ENDCAP_ORT_AT(SessionGetInputTypeInfo, 33);
ENDCAP_ORT_AT(SessionGetInputName, 36);
ENDCAP_ORT_AT(CreateRunOptions, 39);
ENDCAP_ORT_AT(CreateTensorAsOrtValue, 48);
ENDCAP_ORT_AT(GetTensorMutableData, 51);
ENDCAP_ORT_AT(GetStringTensorDataLength, 53);
ENDCAP_ORT_AT(GetOnnxTypeFromTypeInfo, 56);
ENDCAP_ORT_AT(GetTensorElementType, 60);
ENDCAP_ORT_AT(GetTensorTypeAndShape, 65);
ENDCAP_ORT_AT(CreateMemoryInfo, 68);
ENDCAP_ORT_AT(AllocatorFree, 76);
ENDCAP_ORT_AT(GetAllocatorWithDefaultOptions, 78);
ENDCAP_ORT_AT(ReleaseEnv, 92);
ENDCAP_ORT_AT(ReleaseSessionOptions, 100);
ENDCAP_ORT_AT(DisablePerSessionThreads, 120);
ENDCAP_ORT_AT(GetAvailableProviders, 125);
ENDCAP_ORT_AT(AddSessionConfigEntry, 130);
ENDCAP_ORT_AT(RunWithBinding, 133);
ENDCAP_ORT_AT(BindOutputToDevice, 138);
ENDCAP_ORT_AT(GetBoundOutputValues, 140);
ENDCAP_ORT_AT(SetGlobalIntraOpNumThreads, 147);
ENDCAP_ORT_AT(CreateEnvWithCustomLoggerAndGlobalThreadPools, 151);
ENDCAP_ORT_AT(AddRunConfigEntry, 165);
ENDCAP_ORT_AT(SessionOptionsAppendExecutionProvider_TensorRT_V2, 170);
ENDCAP_ORT_AT(ReleaseTensorRTProviderOptions, 174);
ENDCAP_ORT_AT(SessionOptionsAppendExecutionProvider_CUDA_V2, 204);
ENDCAP_ORT_AT(ReleaseCUDAProviderOptions, 208);
ENDCAP_ORT_AT(GetResizedStringTensorElementBuffer, 252);
#undef ENDCAP_ORT_AT
