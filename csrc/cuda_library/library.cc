#include <cuda_runtime.h>

#include <span>
#include <string>

#include "cuda_library/kernel_table.h"
#include "cuda_library/launch_layout.h"
#include "cuda_runtime/cuda_api.h"
#include "cuda_runtime/device.h"
#include "cuda_runtime/launch.h"
#include "decode/cuda/nvjpeg_decoder.h"
#include "nms/cuda/launch.h"
#include "postprocess/cuda/detection_launch.h"
#include "preprocess/cuda/fused_launch.h"

// The tables of libendcap_cuda.so: each entry forwards to a function of cuda_runtime/ or of a
// stage.

namespace endcap {
namespace {

std::string& LastMessage() {
  thread_local std::string message;
  return message;
}

template <typename Body>
int32_t Guard(Body body) noexcept {
  try {
    body();
    return 0;
  } catch (...) {
    ItemStatus status = MakeStatusFromCurrentException();
    LastMessage().swap(status.message);
    return static_cast<int32_t>(status.code);
  }
}

template <typename Body>
int32_t OnDevice(int32_t device, Body body) noexcept {
  return Guard([&] {
    const DeviceGuard guard(device);
    body();
  });
}

// Entries of the tables: kFunction with the entry's arguments, of a pointer or for a result; all
// but CallAnywhere make the device current.

template <auto kFunction, typename... Args>
int32_t CallAnywhere(Args... args) noexcept {
  return Guard([&] { kFunction(args...); });
}

template <auto kFunction, typename... Args>
int32_t Call(int32_t device, Args... args) noexcept {
  return OnDevice(device, [&] { kFunction(args...); });
}

template <auto kFunction, typename Object, typename... Args>
int32_t CallWith(int32_t device, Object* object, Args... args) noexcept {
  return OnDevice(device, [&] { kFunction(*object, args...); });
}

template <auto kFunction, typename Result>
int32_t Make(int32_t device, Result* result) noexcept {
  return OnDevice(device, [&] { *result = kFunction(); });
}

constexpr KernelTable kKernels = {
    .preprocess = CallWith<LaunchFused>,
    .detect = CallWith<LaunchDetection>,
    .nms = CallWith<LaunchNms>,
    .nms_rotated = CallWith<LaunchRotatedNms>,

    .nvjpeg_describe = CallWith<ReadNvjpegFacts>,
    .nvjpeg_open = Make<OpenNvjpeg>,
    .nvjpeg_close = Call<CloseNvjpeg>,
    .nvjpeg_parse = Call<ParseNvjpeg>,
    .nvjpeg_decode = Call<DecodeNvjpeg>,
};

constexpr CudaApi kApi = {
    .version = kCudaApiVersion,
    .layout = ComputeLaunchLayout(),
    .architectures = ENDCAP_CUDA_BUILT_FOR,
    .kernels = &kKernels,
    .last_message = [] { return LastMessage().c_str(); },
    .needs_restart = [] { return cuda_needs_restart.load(); },

    .versions = CallAnywhere<ReadCudaVersions>,
    .device_count = [](int32_t* count) { return Guard([&] { *count = CountDevices(); }); },
    .describe_device = CallAnywhere<DescribeDevice>,

    .allocate =
        [](int32_t device, size_t bytes, void* stream, void** memory) {
          return OnDevice(device, [&] { *memory = AllocateOnDevice(device, bytes, stream); });
        },
    .release = Call<ReleaseOnDevice>,
    .release_after =
        [](int32_t device, void* memory, void* const* streams, int32_t stream_count, bool after_all,
           bool* released) {
          return OnDevice(device, [&] {
            const std::span all(streams, static_cast<size_t>(stream_count));
            *released = ReleaseAfter(device, memory, all, after_all);
          });
        },
    .allocate_pinned =
        [](int32_t device, size_t bytes, void** memory) {
          return OnDevice(device, [&] { *memory = AllocatePinned(bytes); });
        },
    .release_pinned = Call<ReleasePinned>,
    .copy = Call<Copy>,
    .fill = Call<Fill>,
    .locate = [](const void* memory,
                 CudaMemoryPlace* place) { return Guard([&] { *place = Locate(memory); }); },

    .create_stream = Make<CreateStream>,
    .destroy_stream = Call<DestroyStream>,
    .wait_stream = Call<WaitForStream>,
    .check_stream = Call<CheckStream>,
    .capture_id = [](int32_t device, void* stream,
                     uint64_t* id) { return OnDevice(device, [&] { *id = CaptureId(stream); }); },
    .create_event = Make<CreateEvent>,
    .destroy_event = Call<DestroyEvent>,
    .record_event = Call<RecordEvent>,
    .wait_event = Call<WaitForEvent>,
    .order_after_event = Call<OrderAfterEvent>,
};

}  // namespace
}  // namespace endcap

extern "C" __attribute__((visibility("default"))) const endcap::CudaApi* EndcapCudaApi() {
  return &endcap::kApi;
}
