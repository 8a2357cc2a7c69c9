#pragma once

#include <cstdint>
#include <optional>

#include "decode/jpeg_planes.h"
#include "endcap/decode.h"
#include "endcap/preprocess.h"
#include "preprocess/cuda_pixels.h"
#include "preprocess/fused_launch.h"
#include "preprocess/placement.h"

namespace endcap {

// One image on its way to the GPU: opened, then brought into pinned memory in the form in which it
// goes up, then described for the kernel. Not thread-safe; different images are independent.
class CudaImage {
 public:
  // Where an image is worked on, and with what around it.
  struct DecodeContext {
    int device_id = 0;    // where pixels in device memory must be
    bool nvjpeg = false;  // nvJPEG is there, and `decode` allows it
    int batch_size = 1;
  };

  // Reads and checks the header, or the view of pixels, and places the image. Throws as ReadHeader,
  // CheckPixels and ChooseJpegDecoder.
  CudaImage(const PreprocessParams& params, const ImageView& view,
            const DecodeContext& decode_context);

  const Placement& placement() const noexcept { return placement_; }
  int orientation() const noexcept { return orientation_; }
  Geometry MakeGeometry(int source_index) const noexcept;
  JpegDecoder decoder() const noexcept { return decoder_; }

  // Bytes that Fill writes and that are uploaded; 0 for pixels that are on the device already, and
  // for files that nvJPEG decodes there.
  size_t staged_bytes() const noexcept { return staged_bytes_; }
  // Bytes that nvJPEG writes on the device, as layout() says; 0 for other images.
  size_t nvjpeg_bytes() const noexcept {
    return decoder_ == JpegDecoder::kNvjpeg ? layout_.size_bytes : 0;
  }
  const JpegPlaneLayout& layout() const noexcept { return layout_; }

  // Takes the decoder that the file has where nvJPEG is not available. Before Fill. Throws as
  // JpegPlaneReader.
  void DecodeWithoutNvjpeg(const PreprocessParams& params);

  // Decodes the file, or copies the pixels, to `staged`, which is aligned to kPlaneAlignment.
  // Once only. Returns the nanoseconds spent in the JPEG decoder. Throws as DecodeToBands.
  int64_t Fill(uint8_t* staged);

  // What Add of FusedPlan wants, once the staged bytes, or nvJPEG's, are at `device`.
  FusedImage Describe(const uint8_t* device) const;

 private:
  void OpenFile(const PreprocessParams& params, const DecodeContext& decode_context);
  JpegDecoder Choose(const PreprocessParams& params, const DecodeContext& decode_context,
                     const JpegPlaneReader& planes) const;
  void OpenPixels(const PreprocessParams& params, int device_id);

  ImageView view_;
  ImageHeader header_;
  DecodeOptions options_;
  // Planes of a JPEG, or pixels as given; without them rows of R, G, B or gray, decoded.
  std::optional<JpegPlaneReader> planes_;
  std::optional<CudaPixels> pixels_;
  JpegPlaneLayout layout_;
  BandFormat format_;
  Placement placement_;
  int orientation_ = 1;
  JpegDecoder decoder_ = JpegDecoder::kAuto;
  size_t row_stride_bytes_ = 0;
  size_t staged_bytes_ = 0;
};

}  // namespace endcap
