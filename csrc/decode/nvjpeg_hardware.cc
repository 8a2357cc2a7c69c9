#include "decode/nvjpeg_hardware.h"

namespace endcap {

std::unique_ptr<NvjpegHardware> NvjpegHardware::Open(const nvjpeg::Api& api) {
  nvjpeg::Handle handle = nullptr;
  const nvjpeg::Status status =
      api.CreateEx(nvjpeg::kBackendHardware, nullptr, nullptr, 0, &handle);
  if (status == nvjpeg::kAllocatorFailure) CheckNvjpeg(status, "nvjpegCreateEx");
  if (status != nvjpeg::kSuccess) return nullptr;
  return std::unique_ptr<NvjpegHardware>(new NvjpegHardware(api, handle));
}

NvjpegHardware::NvjpegHardware(const nvjpeg::Api& api, nvjpeg::Handle handle)
    : api_(api),
      handle_(handle, api.Destroy),
      parsed_(MakeNvjpeg<nvjpeg::JpegStream>(
          api.JpegStreamDestroy, "nvjpegJpegStreamCreate",
          [&](auto* stream) { return api.JpegStreamCreate(handle, stream); })),
      luma_(MakeFormat(nvjpeg::kOutputY)),
      color_(MakeFormat(nvjpeg::kOutputYuv)) {}

NvjpegHardware::Format NvjpegHardware::MakeFormat(nvjpeg::OutputFormat format) {
  const nvjpeg::Handle handle = handle_.get();
  Format made;
  made.params = MakeNvjpeg<nvjpeg::DecodeParams>(
      api_.DecodeParamsDestroy, "nvjpegDecodeParamsCreate",
      [&](auto* params) { return api_.DecodeParamsCreate(handle, params); });
  CheckNvjpeg(api_.DecodeParamsSetOutputFormat(made.params.get(), format),
              "nvjpegDecodeParamsSetOutputFormat");
  made.state = MakeNvjpeg<nvjpeg::JpegState>(
      api_.JpegStateDestroy, "nvjpegJpegStateCreate",
      [&](auto* state) { return api_.JpegStateCreate(handle, state); });
  return made;
}

bool NvjpegHardware::Takes(const NvjpegImage& image, const uint8_t* bytes) {
  const nvjpeg::Handle handle = handle_.get();
  if (api_.JpegStreamParseHeader(handle, bytes, image.size_bytes, parsed_.get()) !=
      nvjpeg::kSuccess) {
    return false;
  }
  int supported = -1;
  if (api_.DecodeBatchedSupportedEx(handle, parsed_.get(), Of(image).params.get(), &supported) !=
      nvjpeg::kSuccess) {
    return false;
  }
  return supported == 0 && SizesMatch(api_, parsed_.get(), image);
}

nvjpeg::Status NvjpegHardware::Decode(std::span<NvjpegImage* const> images,
                                      std::span<const uint8_t* const> bytes,
                                      nvjpeg::CudaStream stream) {
  sizes_.clear();
  destinations_.clear();
  for (const NvjpegImage* image : images) {
    sizes_.push_back(image->size_bytes);
    destinations_.push_back(DestinationOf(*image));
  }
  const nvjpeg::JpegState state = Of(*images.front()).state.get();
  // Also what resets a state whose last batch failed.
  const nvjpeg::Status status =
      api_.DecodeBatchedInitialize(handle_.get(), state, static_cast<int>(images.size()),
                                   /*max_cpu_threads=*/1, FormatOf(*images.front()));
  if (status != nvjpeg::kSuccess) return status;
  return api_.DecodeBatched(handle_.get(), state, bytes.data(), sizes_.data(), destinations_.data(),
                            stream);
}

}  // namespace endcap
