#include "fake_triton.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "endcap/cuda.h"

// What the API leaves open, for the test's server.

struct TRITONSERVER_Error {
  TRITONSERVER_Error_Code code;
  std::string message;
};
struct TRITONSERVER_Message {
  std::string json;
};
struct TRITONSERVER_Parameter {};
struct TRITONSERVER_MetricFamily {
  std::string name;
};
struct TRITONSERVER_Metric {
  std::string name;
};
struct TRITONBACKEND_Backend {
  void* state = nullptr;
};
struct TRITONBACKEND_Model {
  TRITONBACKEND_Backend* backend;
  std::string config;
  void* state = nullptr;
};
struct TRITONBACKEND_ModelInstance {
  TRITONBACKEND_Model* model;
  TRITONSERVER_InstanceGroupKind kind;
  int32_t device_id;
  void* state = nullptr;
};
struct TRITONBACKEND_Input {
  const endcap::fake::Input* given;
};
struct TRITONBACKEND_Request {
  const endcap::fake::Request* given;
  std::vector<TRITONBACKEND_Input> inputs;
  std::map<std::string, TRITONSERVER_MemoryType> asked;
  endcap::fake::Answer answer;
  int answers = 0;
  int releases = 0;
};
struct TRITONBACKEND_Output {
  TRITONBACKEND_Request* request;
  std::string name;
  endcap::fake::Output result;
};
struct TRITONBACKEND_Response {
  TRITONBACKEND_Request* request;
  std::vector<std::unique_ptr<TRITONBACKEND_Output>> outputs;
};

namespace {

std::map<std::string, double>& Counters() {
  static std::map<std::string, double> counters;
  return counters;
}

void Require(TRITONSERVER_Error* error) {
  if (error == nullptr) return;
  const std::string message = error->message;
  delete error;
  throw std::runtime_error(message);
}

std::shared_ptr<void> NewMemory(size_t bytes, TRITONSERVER_MemoryType type) {
  if (type == TRITONSERVER_MEMORY_GPU) return endcap::AllocateCuda(bytes, {});
  return {::operator new(bytes + 1, std::align_val_t{64}),
          [](void* memory) { ::operator delete(memory, std::align_val_t{64}); }};
}

void Copy(void* to, const void* from, size_t bytes, TRITONSERVER_MemoryType gpu_or_host) {
  if (gpu_or_host == TRITONSERVER_MEMORY_GPU) {
    endcap::CopyCuda(to, from, bytes, {});
    endcap::SynchronizeCuda({});
  } else if (bytes > 0) {
    std::memcpy(to, from, bytes);
  }
}

const endcap::fake::OutputPolicy& PolicyOf(const TRITONBACKEND_Request* request,
                                           const std::string& output) {
  static const endcap::fake::OutputPolicy fulfil;
  const auto found = request->given->policies.find(output);
  return found == request->given->policies.end() ? fulfil : found->second;
}

std::string ConfigOf(const std::map<std::string, std::string>& parameters) {
  nlohmann::json config{{"max_batch_size", 8}, {"parameters", nlohmann::json::object()}};
  for (const auto& [name, value] : parameters) {
    config["parameters"][name] = {{"string_value", value}};
  }
  return config.dump();
}

}  // namespace

namespace endcap::fake {

Buffer Put(std::span<const std::byte> bytes, TRITONSERVER_MemoryType type) {
  Buffer buffer{NewMemory(bytes.size(), type), bytes.size(), type};
  Copy(buffer.memory.get(), bytes.data(), bytes.size(), type);
  return buffer;
}

void Get(const Buffer& buffer, void* to) {
  Copy(to, buffer.memory.get(), buffer.bytes, buffer.type);
}

struct Server::State {
  TRITONBACKEND_Backend backend;
  TRITONBACKEND_Model model;
  TRITONBACKEND_ModelInstance instance;

  ~State() {
    if (instance.state != nullptr) delete TRITONBACKEND_ModelInstanceFinalize(&instance);
    if (model.state != nullptr) delete TRITONBACKEND_ModelFinalize(&model);
    if (backend.state != nullptr) delete TRITONBACKEND_Finalize(&backend);
  }
};

Server::Server(const std::map<std::string, std::string>& parameters,
               TRITONSERVER_InstanceGroupKind kind, int device_id)
    : state_(std::make_unique<State>()) {
  Counters().clear();
  state_->model = {&state_->backend, ConfigOf(parameters)};
  state_->instance = {&state_->model, kind, device_id};
  Require(TRITONBACKEND_Initialize(&state_->backend));
  Require(TRITONBACKEND_ModelInitialize(&state_->model));
  Require(TRITONBACKEND_ModelInstanceInitialize(&state_->instance));
}

Server::~Server() = default;

std::vector<Answer> Server::Infer(const std::vector<Request>& requests) {
  std::vector<TRITONBACKEND_Request> handles(requests.size());
  std::vector<TRITONBACKEND_Request*> pointers;
  for (size_t i = 0; i < requests.size(); ++i) {
    handles[i].given = &requests[i];
    for (const Input& input : requests[i].inputs) handles[i].inputs.push_back({&input});
    pointers.push_back(&handles[i]);
  }
  Require(TRITONBACKEND_ModelInstanceExecute(&state_->instance, pointers.data(),
                                             static_cast<uint32_t>(pointers.size())));
  std::vector<Answer> answers;
  for (TRITONBACKEND_Request& handle : handles) {
    if (handle.answers != 1 || handle.releases != 1) {
      throw std::logic_error("a request was not answered and released once");
    }
    answers.push_back(std::move(handle.answer));
  }
  return answers;
}

double Server::Counter(const std::string& name) { return Counters()[name]; }

}  // namespace endcap::fake

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
  Counters()[metric->name] += value;
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

TRITONSERVER_Error* TRITONBACKEND_RequestId(TRITONBACKEND_Request* /*request*/, const char** id) {
  *id = "";
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_RequestIsCancelled(TRITONBACKEND_Request* /*request*/,
                                                     bool* is_cancelled) {
  *is_cancelled = false;
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
  request->asked[name] = *type;
  *type = PolicyOf(request, name).promised.value_or(*type);
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_RequestRelease(TRITONBACKEND_Request* request,
                                                 uint32_t /*flags*/) {
  ++request->releases;
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
  owner->result.asked = response->request->asked[name];
  *output = owner.get();
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_OutputBuffer(TRITONBACKEND_Output* output, void** buffer,
                                               uint64_t size_bytes,
                                               TRITONSERVER_MemoryType* memory_type,
                                               int64_t* memory_type_id) {
  *memory_type = PolicyOf(output->request, output->name).given.value_or(*memory_type);
  *memory_type_id = 0;
  output->result.buffer = {NewMemory(size_bytes, *memory_type), size_bytes, *memory_type};
  *buffer = output->result.buffer.memory.get();
  return nullptr;
}
TRITONSERVER_Error* TRITONBACKEND_ResponseSend(TRITONBACKEND_Response* response, uint32_t /*flags*/,
                                               TRITONSERVER_Error* error) {
  const std::unique_ptr<TRITONBACKEND_Response> owner(response);
  ++response->request->answers;
  endcap::fake::Answer& answer = response->request->answer;
  if (error != nullptr) answer.error = error->message;
  for (auto& output : response->outputs) {
    answer.outputs[output->name] = std::move(output->result);
  }
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
