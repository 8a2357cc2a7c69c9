// Triton's functions on messages, metrics, backends, models and instances.

#include "fake_triton_handles.h"

extern "C" {

TRITONSERVER_Error* TRITONSERVER_ErrorNew(TRITONSERVER_Error_Code code, const char* message) {
  return new TRITONSERVER_Error{code, message};
}
void TRITONSERVER_ErrorDelete(TRITONSERVER_Error* error) { delete error; }
TRITONSERVER_Error_Code TRITONSERVER_ErrorCode(TRITONSERVER_Error* error) { return error->code; }
const char* TRITONSERVER_ErrorMessage(TRITONSERVER_Error* error) { return error->message.c_str(); }

TRITONSERVER_Error* TRITONSERVER_MessageNewFromSerializedJson(TRITONSERVER_Message** message,
                                                              const char* json, size_t size) {
  *message = new TRITONSERVER_Message{std::string(json, size)};
  return nullptr;
}
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

TRITONSERVER_Parameter* TRITONSERVER_ParameterNew(const char* /*name*/,
                                                  TRITONSERVER_ParameterType /*type*/,
                                                  const void* /*value*/) {
  return new TRITONSERVER_Parameter;
}
void TRITONSERVER_ParameterDelete(TRITONSERVER_Parameter* parameter) { delete parameter; }
TRITONSERVER_Error* TRITONSERVER_MetricFamilyNew(TRITONSERVER_MetricFamily** family,
                                                 TRITONSERVER_MetricKind /*kind*/, const char* name,
                                                 const char* /*description*/) {
  *family = new TRITONSERVER_MetricFamily{name};
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_MetricFamilyDelete(TRITONSERVER_MetricFamily* family) {
  delete family;
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_MetricNew(TRITONSERVER_Metric** metric,
                                           TRITONSERVER_MetricFamily* family,
                                           const TRITONSERVER_Parameter** /*labels*/,
                                           uint64_t /*count*/) {
  *metric = new TRITONSERVER_Metric{family->name};
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_MetricIncrement(TRITONSERVER_Metric* metric, double value) {
  const std::scoped_lock lock(endcap::fake::SharedState().mutex);
  endcap::fake::SharedState().counters[metric->name] += value;
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_MetricSet(TRITONSERVER_Metric* metric, double value) {
  const std::scoped_lock lock(endcap::fake::SharedState().mutex);
  endcap::fake::SharedState().counters[metric->name] = value;
  return nullptr;
}
TRITONSERVER_Error* TRITONSERVER_MetricDelete(TRITONSERVER_Metric* metric) {
  delete metric;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ApiVersion(uint32_t* major, uint32_t* minor) {
  *major = ENDCAP_TRITONBACKEND_MAJOR;
  *minor = ENDCAP_TRITONBACKEND_MINOR;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_BackendState(TRITONBACKEND_Backend* backend, void** state) {
  *state = backend->state;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_BackendSetState(TRITONBACKEND_Backend* backend, void* state) {
  backend->state = state;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelName(TRITONBACKEND_Model* /*model*/, const char** name) {
  *name = "model";
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelVersion(TRITONBACKEND_Model* /*model*/, uint64_t* version) {
  *version = 1;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelRepository(TRITONBACKEND_Model* /*model*/,
                                                  TRITONBACKEND_ArtifactType* type,
                                                  const char** location) {
  *type = TRITONBACKEND_ARTIFACT_FILESYSTEM;
  *location = "/nowhere";
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelConfig(TRITONBACKEND_Model* model, uint32_t /*version*/,
                                              TRITONSERVER_Message** config) {
  *config = new TRITONSERVER_Message{model->config};
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelAutoCompleteConfig(TRITONBACKEND_Model* /*model*/,
                                                          bool* asked) {
  *asked = true;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelSetConfig(TRITONBACKEND_Model* model, uint32_t /*version*/,
                                                 TRITONSERVER_Message* config) {
  model->config = config->json;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelBackend(TRITONBACKEND_Model* model,
                                               TRITONBACKEND_Backend** backend) {
  *backend = model->backend;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelState(TRITONBACKEND_Model* model, void** state) {
  *state = model->state;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelSetState(TRITONBACKEND_Model* model, void* state) {
  model->state = state;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceModel(TRITONBACKEND_ModelInstance* instance,
                                                     TRITONBACKEND_Model** model) {
  *model = instance->model;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceKind(TRITONBACKEND_ModelInstance* instance,
                                                    TRITONSERVER_InstanceGroupKind* kind) {
  *kind = instance->kind;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceDeviceId(TRITONBACKEND_ModelInstance* instance,
                                                        int32_t* device_id) {
  *device_id = instance->device_id;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceState(TRITONBACKEND_ModelInstance* instance,
                                                     void** state) {
  *state = instance->state;
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceSetState(TRITONBACKEND_ModelInstance* instance,
                                                        void* state) {
  instance->state = state;
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceReportStatistics(
    TRITONBACKEND_ModelInstance* /*instance*/, TRITONBACKEND_Request* /*request*/, bool /*success*/,
    uint64_t /*exec_start_ns*/, uint64_t /*compute_start_ns*/, uint64_t /*compute_end_ns*/,
    uint64_t /*exec_end_ns*/) {
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceReportBatchStatistics(
    TRITONBACKEND_ModelInstance* /*instance*/, uint64_t /*batch_size*/, uint64_t /*exec_start_ns*/,
    uint64_t /*compute_start_ns*/, uint64_t /*compute_end_ns*/, uint64_t /*exec_end_ns*/) {
  return nullptr;
}

}  // extern "C"
