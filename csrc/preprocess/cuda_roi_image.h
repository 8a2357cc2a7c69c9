#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "endcap/preprocess.h"
#include "preprocess/fused_plan.h"
#include "preprocess/roi_targets.h"

namespace endcap {

// One image and its regions on their way to the GPU. The part of the oriented image that holds all
// regions goes up as rows of pixels, which the regions are windows of. Not thread-safe; different
// images are independent.
class CudaRoiImage {
 public:
  // Reads and checks the header, or the view of pixels; writes the regions' geometries, and into
  // `item` the statuses of bad ones. Throws as ReadHeader and CheckPixels; kUnsupported for YUV in
  // GPU memory, kInvalidArgument for pixels in that of another GPU.
  CudaRoiImage(const PreprocessParams& params, const RoiImage& image, int device_id, RoiItem& item);

  // Bytes that Fill writes and that go up; 0 for pixels that are on the device already.
  size_t staged_bytes() const noexcept { return staged_bytes_; }

  // Decodes what the regions need to `staged`, or copies it there; notes the decoder and its time.
  // Throws as DecodeToBands.
  void Fill(uint8_t* staged, RoiItem& item) const;

  // Adds a tensor for each region that wants one, good or bad, once the staged bytes are at
  // `device`.
  void AddTo(FusedPlan& plan, const uint8_t* device) const;

 private:
  FusedImage Describe(const uint8_t* device) const;

  const PreprocessParams* params_;
  RoiImage image_;
  ImageHeader header_;
  std::vector<RoiTarget> targets_;
  PixelRect window_;
  int channels_ = 3;  // of the staged rows
  size_t row_stride_bytes_ = 0;
  size_t staged_bytes_ = 0;
};

}  // namespace endcap
