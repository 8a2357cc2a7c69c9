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
    const RelaxedCaptureMode relaxed;
    body();
  });
}

constexpr KernelTable kKernels = {
    .preprocess =
        [](int32_t device, const FusedLaunch* launch, void* stream) {
          return OnDevice(device, [&] { LaunchFused(*launch, stream); });
        },
    .detect =
        [](int32_t device, const DetectionLaunch* launch, void* stream) {
          return OnDevice(device, [&] { LaunchDetection(*launch, stream); });
        },
    .nms = [](int32_t device, const NmsLaunch* launch,
              void* stream) { return OnDevice(device, [&] { LaunchNms(*launch, stream); }); },
    .nms_rotated =
        [](int32_t device, const RotatedNmsLaunch* launch, void* stream) {
          return OnDevice(device, [&] { LaunchRotatedNms(*launch, stream); });
        },

    .nvjpeg_describe =
        [](int32_t device, NvjpegFacts* facts) {
          return OnDevice(device, [&] { ReadNvjpegFacts(*facts); });
        },
    .nvjpeg_open =
        [](int32_t device, void** decoder) {
          return OnDevice(device, [&] { *decoder = OpenNvjpeg(); });
        },
    .nvjpeg_close = [](int32_t device,
                       void* decoder) { return OnDevice(device, [&] { CloseNvjpeg(decoder); }); },
    .nvjpeg_parse =
        [](int32_t device, void* decoder, NvjpegImage* image) {
          return OnDevice(device, [&] { ParseNvjpeg(decoder, *image); });
        },
    .nvjpeg_decode =
        [](int32_t device, void* decoder, NvjpegDecodeBatch* batch, void* stream) {
          return OnDevice(device, [&] { DecodeNvjpeg(decoder, *batch, stream); });
        },
};

constexpr CudaApi kApi = {
    .version = kCudaApiVersion,
    .layout = ComputeLaunchLayout(),
    .architectures = ENDCAP_CUDA_BUILT_FOR,
    .kernels = &kKernels,
    .last_message = [] { return LastMessage().c_str(); },
    .needs_restart = [] { return cuda_needs_restart.load(); },

    .versions = [](int32_t* driver,
                   int32_t* runtime) { return Guard([&] { ReadCudaVersions(driver, runtime); }); },
    .device_count = [](int32_t* count) { return Guard([&] { *count = CountDevices(); }); },
    .describe_device =
        [](int32_t device, CudaDeviceFacts* facts) {
          return Guard([&] { DescribeDevice(device, facts); });
        },

    .allocate =
        [](int32_t device, size_t bytes, void* stream, void** memory) {
          return OnDevice(device, [&] { *memory = AllocateOnDevice(device, bytes, stream); });
        },
    .release =
        [](int32_t device, void* memory, void* stream) {
          return OnDevice(device, [&] { ReleaseOnDevice(memory, stream); });
        },
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
    .release_pinned = [](int32_t device,
                         void* memory) { return OnDevice(device, [&] { ReleasePinned(memory); }); },
    .copy = [](int32_t device, void* to, const void* from, size_t bytes,
               void* stream) { return OnDevice(device, [&] { Copy(to, from, bytes, stream); }); },
    .fill = [](int32_t device, void* to, int32_t byte, size_t bytes,
               void* stream) { return OnDevice(device, [&] { Fill(to, byte, bytes, stream); }); },
    .locate =
        [](const void* memory, CudaMemoryKind* kind, int32_t* device) {
          return Guard([&] {
            const MemoryPlace place = Locate(memory);
            *kind = place.kind;
            *device = place.device;
          });
        },

    .create_stream =
        [](int32_t device, void** stream) {
          return OnDevice(device, [&] { *stream = CreateStream(); });
        },
    .destroy_stream = [](int32_t device,
                         void* stream) { return OnDevice(device, [&] { DestroyStream(stream); }); },
    .wait_stream = [](int32_t device,
                      void* stream) { return OnDevice(device, [&] { WaitForStream(stream); }); },
    .check_stream = [](int32_t device,
                       void* stream) { return OnDevice(device, [&] { CheckStream(stream); }); },
    .capture_id = [](int32_t device, void* stream,
                     uint64_t* id) { return OnDevice(device, [&] { *id = CaptureId(stream); }); },
    .create_event = [](int32_t device,
                       void** event) { return OnDevice(device, [&] { *event = CreateEvent(); }); },
    .destroy_event = [](int32_t device,
                        void* event) { return OnDevice(device, [&] { DestroyEvent(event); }); },
    .record_event =
        [](int32_t device, void* event, void* stream) {
          return OnDevice(device, [&] { RecordEvent(event, stream); });
        },
    .wait_event = [](int32_t device,
                     void* event) { return OnDevice(device, [&] { WaitForEvent(event); }); },
    .order_after_event =
        [](int32_t device, void* stream, void* event) {
          return OnDevice(device, [&] { OrderAfterEvent(stream, event); });
        },
};

}  // namespace
}  // namespace endcap

extern "C" __attribute__((visibility("default"))) const endcap::CudaApi* EndcapCudaApi() {
  return &endcap::kApi;
}
