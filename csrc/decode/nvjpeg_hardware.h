#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "decode/nvjpeg_object.h"

namespace endcap {

// The GPU's JPEG engine: whole batches of baseline files of one scan.
class NvjpegHardware {
 public:
  // Nothing where this device has no engine, or the process may not use it. Throws kOutOfMemory.
  static std::unique_ptr<NvjpegHardware> Open(const nvjpeg::Api& api);

  // Whether the engine decodes this file into these planes. `bytes` is the file.
  bool Takes(const NvjpegImage& image, const uint8_t* bytes);

  // Decodes images of one output format; bytes[i] is the file of images[i], and stays until the
  // stream is done. Success or failure of the batch as a whole.
  nvjpeg::Status Decode(std::span<NvjpegImage* const> images, std::span<const uint8_t* const> bytes,
                        nvjpeg::CudaStream stream);

 private:
  NvjpegHardware(const nvjpeg::Api& api, nvjpeg::Handle handle);

  // What is kept for one output format; a state's batch may still run when the other begins.
  struct Format {
    NvjpegObject<nvjpeg::DecodeParams> params;
    NvjpegObject<nvjpeg::JpegState> state;
  };
  Format MakeFormat(nvjpeg::OutputFormat format);
  Format& Of(const NvjpegImage& image) { return image.plane_count == 1 ? luma_ : color_; }

  const nvjpeg::Api& api_;
  NvjpegObject<nvjpeg::Handle> handle_;
  NvjpegObject<nvjpeg::JpegStream> parsed_;
  Format luma_;
  Format color_;
  std::vector<size_t> sizes_;
  std::vector<nvjpeg::Image> destinations_;
};

}  // namespace endcap
