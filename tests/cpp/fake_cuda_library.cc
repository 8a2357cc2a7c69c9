#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "cuda_library/launch_layout.h"
#include "cuda_runtime/cuda_api.h"

// A library like libendcap_cuda.so that returns what the environment says, for tests of how it is
// opened: FAKE_CUDA_VERSION, _LAYOUT, _DRIVER, _DEVICES, _COMPUTE (75 for 7.5), _DEVICES_FAIL.

namespace {

int Setting(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

endcap::CudaApi MakeApi() {
  endcap::CudaApi api{};
  api.version = static_cast<uint32_t>(Setting("FAKE_CUDA_VERSION", endcap::kCudaApiVersion));
  api.layout = static_cast<uint32_t>(
      Setting("FAKE_CUDA_LAYOUT", static_cast<int>(endcap::ComputeLaunchLayout())));
  api.architectures = "75-real 90-real";
  api.last_message = [] { return "the fake device is broken"; };
  api.versions = [](int32_t* driver, int32_t* runtime) {
    *driver = Setting("FAKE_CUDA_DRIVER", 13010);
    *runtime = 13000;
    return int32_t{0};
  };
  api.device_count = [](int32_t* count) {
    *count = Setting("FAKE_CUDA_DEVICES", 2);
    return int32_t{Setting("FAKE_CUDA_DEVICES_FAIL", 0) != 0 ? 5 : 0};
  };
  api.describe_device = [](int32_t device, endcap::CudaDeviceFacts* facts) {
    std::snprintf(facts->name, sizeof facts->name, "Fake %d", device);
    // The first is as told, the others are newer than anything there is code for.
    const int compute = device == 0 ? Setting("FAKE_CUDA_COMPUTE", 90) : 130;
    facts->compute_major = compute / 10;
    facts->compute_minor = compute % 10;
    facts->multiprocessors = 3;
    facts->memory_bytes = 1 << 20;
    return int32_t{0};
  };
  return api;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const endcap::CudaApi* EndcapCudaApi() {
  static endcap::CudaApi api;
  api = MakeApi();
  return &api;
}
