#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "decode/planes.h"
#include "endcap/decode.h"
#include "endcap/image_view.h"
#include "endcap/preprocess.h"
#include "preprocess/cuda/fused_launch.h"
#include "preprocess/cuda/fused_plan.h"
#include "preprocess/placement.h"
#include "preprocess/preprocess_output.h"

namespace endcap {

inline size_t RoundUp(size_t bytes, size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

// Uploads pixels: those in CPU memory are copied plane by plane, those in device memory are read in
// place.
class DevicePixels {
 public:
  // The view is checked, and is not encoded; its memory must outlive this.
  explicit DevicePixels(const ImageView& view);

  // Bytes that Copy writes and that are uploaded; 0 for pixels that are on the device already.
  size_t staged_bytes() const noexcept { return staged_bytes_; }
  // `staged` is aligned to kPlaneAlignment.
  void Copy(uint8_t* staged) const;
  // Returns the argument of FusedPlan::Add, once the staged bytes are at `device`.
  FusedImage Describe(const uint8_t* device) const;

 private:
  struct StagedPlane {
    size_t offset = 0;
    size_t row_stride_bytes = 0;
    size_t row_bytes = 0;
    int rows = 0;
  };

  ImageView view_;
  std::array<StagedPlane, 3> planes_{};
  size_t plane_count_ = 0;
  size_t staged_bytes_ = 0;
};

// Uploads one input: reads its header, decodes or copies it to pinned memory, then describes it for
// the kernel. A whole image is uploaded as planes or rows; of an image with regions, the rows of
// the rectangle that holds all of them, which each region is a part of. Not thread-safe; different
// images are independent.
class DeviceImage {
 public:
  struct DecodeContext {
    int device_id = 0;    // pixels in device memory must be on this one
    bool nvjpeg = false;  // nvJPEG can be used, and `decode` allows it
    int batch_size = 1;
  };

  // Reads and checks the header, or the view of pixels, and places the image or its regions. Writes
  // the geometries of regions, and the statuses of bad ones into `item`. Throws as ReadHeader,
  // CheckPixels and ChooseJpegDecoder; kUnsupported for regions of YUV in GPU memory.
  DeviceImage(const PreprocessParams& params, const PreprocessInput& input,
              const DecodeContext& context, PreprocessItem& item);

  // Bytes that Fill writes and that are uploaded; 0 for pixels that are on the device already, for
  // files that nvJPEG decodes there, and where no tensor is wanted.
  size_t staged_bytes() const noexcept { return staged_bytes_; }
  // Bytes that nvJPEG writes on the device, as layout() says; 0 for other images.
  size_t nvjpeg_bytes() const noexcept {
    return decoder_ == JpegDecoder::kNvjpeg ? layout_.size_bytes : 0;
  }
  const JpegPlaneLayout& layout() const noexcept { return layout_; }

  // Takes the decoder that the file has where nvJPEG is not available. Before Fill. Throws as
  // JpegPlaneReader.
  void DecodeWithoutNvjpeg();

  // Decodes the file, or copies the pixels, to `staged`, which is aligned to kPlaneAlignment; notes
  // decoder, time and damage in `item`. Where no tensor is wanted it decodes for the errors alone.
  // Once only. Throws as DecodeToBands.
  void Fill(uint8_t* staged, PreprocessItem& item);

  // Adds a tensor for each output that wants one, once the staged bytes, or nvJPEG's, are at
  // `device`.
  void AddTo(FusedPlan& plan, const uint8_t* device) const;

  // Writes the geometry of a whole image; those of regions are written by the constructor.
  void WriteWholeGeometry() const;

 private:
  void OpenFile(const DecodeContext& context);
  void ReadSize(int device_id);
  void OpenPixels(int device_id);
  void OpenRegions(int device_id, PreprocessItem& item);
  void StageRows(const BandFormat& format);
  bool TakesNvjpeg(const DecodeContext& context, const JpegPlaneReader& planes) const;
  FusedImage Describe(const uint8_t* device) const;
  FusedImage DescribePlanes(const uint8_t* device) const;
  void AddRegions(FusedPlan& plan, const FusedImage& rows) const;

  const PreprocessParams* params_;
  PreprocessInput input_;
  bool wants_tensors_ = true;
  ImageHeader header_;
  DecodeOptions options_;
  // Planes of a JPEG, or pixels as given; without them rows of R, G, B or gray, decoded.
  std::optional<JpegPlaneReader> planes_;
  std::optional<DevicePixels> pixels_;
  JpegPlaneLayout layout_;
  Placement placement_;             // of a whole image
  std::vector<RoiTarget> targets_;  // the good regions
  PixelRect window_;                // holds all of them
  JpegDecoder decoder_ = JpegDecoder::kAuto;
  BandFormat format_;  // of the staged rows
  size_t row_stride_bytes_ = 0;
  size_t staged_bytes_ = 0;
};

}  // namespace endcap
