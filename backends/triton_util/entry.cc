// The functions that Triton calls in a backend; they forward to Backend, Model and Instance.

#include <string>

#include "triton_util/model.h"
#include "triton_util/triton_api.h"

namespace {

using endcap::triton::Backend;
using endcap::triton::Check;
using endcap::triton::Guard;
using endcap::triton::Instance;
using endcap::triton::Model;

void RequireApiVersion() {
  uint32_t major = 0;
  uint32_t minor = 0;
  Check(TRITONBACKEND_ApiVersion(&major, &minor));
  if (major == ENDCAP_TRITONBACKEND_MAJOR && minor >= ENDCAP_TRITONBACKEND_MINOR) return;
  throw endcap::Error(endcap::ErrorCode::kUnsupported,
                      "this server has backend API " + std::to_string(major) + "." +
                          std::to_string(minor) + "; the backend needs " +
                          std::to_string(ENDCAP_TRITONBACKEND_MAJOR) + "." +
                          std::to_string(ENDCAP_TRITONBACKEND_MINOR) + " or a later minor version");
}

template <auto Get, typename Owner>
void* GetState(Owner* owner) {
  void* state = nullptr;
  Check(Get(owner, &state));
  return state;
}

Model& GetModel(TRITONBACKEND_ModelInstance* instance) {
  TRITONBACKEND_Model* model = nullptr;
  Check(TRITONBACKEND_ModelInstanceModel(instance, &model));
  return *static_cast<Model*>(GetState<TRITONBACKEND_ModelState>(model));
}

}  // namespace

extern "C" {

TRITONSERVER_Error* TRITONBACKEND_Initialize(TRITONBACKEND_Backend* backend) {
  return Guard([&] {
    RequireApiVersion();
    auto state = endcap::triton::CreateBackend();
    Check(TRITONBACKEND_BackendSetState(backend, state.get()));
    static_cast<void>(state.release());
  });
}

TRITONSERVER_Error* TRITONBACKEND_Finalize(TRITONBACKEND_Backend* backend) {
  return Guard(
      [&] { delete static_cast<Backend*>(GetState<TRITONBACKEND_BackendState>(backend)); });
}

TRITONSERVER_Error* TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model* model) {
  return Guard([&] {
    TRITONBACKEND_Backend* backend = nullptr;
    Check(TRITONBACKEND_ModelBackend(model, &backend));
    endcap::triton::ModelConfig config(model);
    auto state = static_cast<Backend*>(GetState<TRITONBACKEND_BackendState>(backend))->Load(config);
    Check(TRITONBACKEND_ModelSetState(model, state.get()));
    static_cast<void>(state.release());
  });
}

TRITONSERVER_Error* TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model* model) {
  return Guard([&] { delete static_cast<Model*>(GetState<TRITONBACKEND_ModelState>(model)); });
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance* instance) {
  return Guard([&] {
    auto state = GetModel(instance).NewInstance(endcap::triton::MakeExecutionContext(instance));
    Check(TRITONBACKEND_ModelInstanceSetState(instance, state.get()));
    static_cast<void>(state.release());
  });
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance* instance) {
  return Guard(
      [&] { delete static_cast<Instance*>(GetState<TRITONBACKEND_ModelInstanceState>(instance)); });
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance* instance,
                                                       TRITONBACKEND_Request** requests,
                                                       uint32_t count) {
  return Guard([&] {
    Model& model = GetModel(instance);
    auto* state = static_cast<Instance*>(GetState<TRITONBACKEND_ModelInstanceState>(instance));
    // Execute takes ownership of the requests.
    model.Execute(instance, *state, {requests, count});
  });
}

// Called by servers for the readiness of a model; older servers do not call it.
TRITONSERVER_Error* TRITONBACKEND_ModelInstanceReady(TRITONBACKEND_ModelInstance* instance) {
  return Guard([&] {
    static_cast<Instance*>(GetState<TRITONBACKEND_ModelInstanceState>(instance))->CheckReady();
  });
}

}  // extern "C"
