#include "decode/nvjpeg_kernels.h"

#include "cuda/launch.h"

namespace endcap {

NvjpegKernels::NvjpegKernels(const nvjpeg::Api& api)
    : api_(api),
      handle_(MakeNvjpeg<nvjpeg::Handle>(api.Destroy, "nvjpegCreateEx",
                                         [&](auto* handle) {
                                           return api.CreateEx(nvjpeg::kBackendDefault, nullptr,
                                                               nullptr, 0, handle);
                                         })),
      luma_(MakeParams(nvjpeg::kOutputY)),
      color_(MakeParams(nvjpeg::kOutputYuv)),
      slots_{MakeSlot(), MakeSlot()},
      device_(MakeNvjpeg<nvjpeg::DeviceBuffer>(
          api.BufferDeviceDestroy, "nvjpegBufferDeviceCreate",
          [&](auto* buffer) { return api.BufferDeviceCreate(handle_.get(), nullptr, buffer); })),
      backends_{MakeBackend(nvjpeg::kBackendGpuHybrid), MakeBackend(nvjpeg::kBackendHybrid)} {
  Check(cudaEventCreateWithFlags(&image_done_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
}

NvjpegKernels::~NvjpegKernels() { (void)cudaEventDestroy(image_done_); }

NvjpegKernels::Backend NvjpegKernels::MakeBackend(nvjpeg::Backend backend) {
  Backend made;
  made.decoder = MakeNvjpeg<nvjpeg::Decoder>(
      api_.DecoderDestroy, "nvjpegDecoderCreate",
      [&](auto* decoder) { return api_.DecoderCreate(handle_.get(), backend, decoder); });
  made.state = MakeNvjpeg<nvjpeg::JpegState>(
      api_.JpegStateDestroy, "nvjpegDecoderStateCreate", [&](auto* state) {
        return api_.DecoderStateCreate(handle_.get(), made.decoder.get(), state);
      });
  CheckNvjpeg(api_.StateAttachDeviceBuffer(made.state.get(), device_.get()),
              "nvjpegStateAttachDeviceBuffer");
  return made;
}

NvjpegKernels::Slot NvjpegKernels::MakeSlot() {
  Slot slot;
  slot.parsed = MakeNvjpeg<nvjpeg::JpegStream>(
      api_.JpegStreamDestroy, "nvjpegJpegStreamCreate",
      [&](auto* stream) { return api_.JpegStreamCreate(handle_.get(), stream); });
  slot.pinned = MakeNvjpeg<nvjpeg::PinnedBuffer>(
      api_.BufferPinnedDestroy, "nvjpegBufferPinnedCreate",
      [&](auto* buffer) { return api_.BufferPinnedCreate(handle_.get(), nullptr, buffer); });
  return slot;
}

NvjpegObject<nvjpeg::DecodeParams> NvjpegKernels::MakeParams(nvjpeg::OutputFormat format) {
  auto params = MakeNvjpeg<nvjpeg::DecodeParams>(
      api_.DecodeParamsDestroy, "nvjpegDecodeParamsCreate",
      [&](auto* made) { return api_.DecodeParamsCreate(handle_.get(), made); });
  CheckNvjpeg(api_.DecodeParamsSetOutputFormat(params.get(), format),
              "nvjpegDecodeParamsSetOutputFormat");
  return params;
}

const NvjpegKernels::Backend* NvjpegKernels::BackendFor(nvjpeg::JpegStream parsed,
                                                        nvjpeg::DecodeParams params) const {
  for (const Backend& backend : backends_) {
    int supported = -1;
    const nvjpeg::Status status =
        api_.DecoderJpegSupported(backend.decoder.get(), parsed, params, &supported);
    if (status == nvjpeg::kSuccess && supported == 0) return &backend;
  }
  return nullptr;
}

nvjpeg::Status NvjpegKernels::Enqueue(const NvjpegImage& image, const uint8_t* bytes,
                                      nvjpeg::CudaStream stream) {
  const nvjpeg::Handle handle = handle_.get();
  const Slot& slot = slots_[next_slot_];
  const nvjpeg::JpegStream parsed = slot.parsed.get();
  const nvjpeg::DecodeParams params = image.plane_count == 1 ? luma_.get() : color_.get();
  nvjpeg::Status status = api_.JpegStreamParse(handle, bytes, image.size_bytes, 0, 0, parsed);
  if (status != nvjpeg::kSuccess) return status;
  const Backend* backend = BackendFor(parsed, params);
  if (backend == nullptr || !SizesMatch(api_, parsed, image)) return nvjpeg::kJpegNotSupported;

  const nvjpeg::Decoder decoder = backend->decoder.get();
  const nvjpeg::JpegState state = backend->state.get();
  status = api_.StateAttachPinnedBuffer(state, slot.pinned.get());
  if (status != nvjpeg::kSuccess) return status;
  status = api_.DecodeJpegHost(handle, decoder, state, params, parsed);
  if (status != nvjpeg::kSuccess) return status;
  Check(cudaEventSynchronize(image_done_), "cudaEventSynchronize");
  next_slot_ = 1 - next_slot_;  // only now: until here the other slot's upload may go on
  status = api_.DecodeJpegTransferToDevice(handle, decoder, state, parsed, stream);
  if (status != nvjpeg::kSuccess) return status;
  nvjpeg::Image destination = DestinationOf(image);
  return api_.DecodeJpegDevice(handle, decoder, state, &destination, stream);
}

void NvjpegKernels::Decode(NvjpegImage& image, const uint8_t* bytes, nvjpeg::CudaStream stream) {
  const nvjpeg::Status status = Enqueue(image, bytes, stream);
  // After a failure as well: part of the image's work may have been enqueued.
  Check(cudaEventRecord(image_done_, stream), "cudaEventRecord");
  if (status == nvjpeg::kSuccess) {
    image.backend = NvjpegBackend::kCuda;
  } else {
    FailImage(image, status);
  }
}

}  // namespace endcap
