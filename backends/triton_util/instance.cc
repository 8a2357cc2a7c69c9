#include "triton_util/instance.h"

#include <string>

#include "endcap/error.h"
#include "triton_util/errors.h"

namespace endcap::triton {

ExecutionContext MakeExecutionContext(TRITONBACKEND_ModelInstance* instance) {
  TRITONSERVER_InstanceGroupKind kind = TRITONSERVER_INSTANCEGROUPKIND_CPU;
  Check(TRITONBACKEND_ModelInstanceKind(instance, &kind));
  if (kind != TRITONSERVER_INSTANCEGROUPKIND_GPU) return {};
  int32_t device_id = 0;
  Check(TRITONBACKEND_ModelInstanceDeviceId(instance, &device_id));
  try {
    RequireCuda(device_id);
  } catch (const Error& error) {
    throw Error(error.code(), std::string(error.what()) +
                                  "; to work on the CPU, give the model's config "
                                  "instance_group { kind: KIND_CPU }");
  }
  return ExecutionContext(device_id);
}

void Instance::CheckReady() const {
  if (!execution_context_.on_gpu()) return;
  CheckCudaStream(execution_context_.target());
  if (!CudaNeedsRestart()) return;
  throw Error(ErrorCode::kCuda,
              "an unrecoverable CUDA error has ended this process's use of the GPU: restart the "
              "server");
}

}  // namespace endcap::triton
