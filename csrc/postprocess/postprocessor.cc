#include "common/fail.h"
#include "endcap/postprocess.h"
#include "postprocess/device.h"
#include "postprocess/outputs.h"

namespace endcap {
namespace {

std::unique_ptr<PostprocessDevice> MakeDevice(const PostprocessParams& params, DeviceId device,
                                              int threads) {
  if (params.merge != Merge::kNone && device.type != Device::kCpu) {
    Fail(ErrorCode::kUnsupported,
         "merge is for the CPU: give device cpu, or in config.pbtxt instance_group { kind: "
         "KIND_CPU }");
  }
  if (device.type != Device::kCpu && IsSemantic(params.head.family)) {
    Fail(ErrorCode::kUnsupported,
         "head semantic runs on the CPU only: give device=\"cpu\", or in a "
         "config.pbtxt instance_group [{ kind: KIND_CPU }]");
  }
  return device.type == Device::kCpu ? MakeCpuPostprocess(params, threads)
                                     : MakeCudaPostprocess(params, device.id);
}

}  // namespace

Postprocessor::Postprocessor(const PostprocessParams& params, DeviceId device, int threads)
    : params_((Validate(params), params)),
      outputs_(PostprocessOutputs(params)),
      device_id_(device),
      device_(MakeDevice(params, device, threads)) {}

Postprocessor::Postprocessor(const PostprocessParams& params, int threads)
    : Postprocessor(params, DeviceId{}, threads) {}

Postprocessor::~Postprocessor() = default;

int Postprocessor::threads() const noexcept { return device_->threads(); }

void Postprocessor::Check(std::span<const PostprocessInput> inputs,
                          std::span<const PostprocessOutput> outputs) const {
  if (inputs.size() != outputs.size()) {
    FailArgument(inputs.size(), " heads came with ", outputs.size(), " outputs");
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    CheckOutputs(outputs_, outputs[i], i, device_id_);
    if (inputs[i].tiles.empty() != (params_.merge == Merge::kNone)) {
      FailArgument("image ", i, " came with ", inputs[i].tiles.size(), " tiles and merge ",
                   params_.merge == Merge::kNone ? "none: give its head alone, or set merge"
                                                 : "set: give at least one");
    }
    const bool on_gpu = inputs[i].geometry != nullptr && inputs[i].geometry_device != Device::kCpu;
    if (on_gpu && device_id_.type == Device::kCpu) {
      FailArgument("the geometry of item ", i, " is in GPU memory: give it in CPU memory");
    }
  }
}

std::vector<PostprocessItem> Postprocessor::Run(std::span<const PostprocessInput> inputs,
                                                std::span<const PostprocessOutput> outputs,
                                                void* stream) {
  Check(inputs, outputs);
  return device_->Run(inputs, outputs, stream);
}

void Postprocessor::Enqueue(std::span<const PostprocessInput> inputs,
                            std::span<const PostprocessOutput> outputs, void* stream) {
  Check(inputs, outputs);
  device_->Enqueue(inputs, outputs, stream);
}

}  // namespace endcap
