#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "endcap/image_view.h"
#include "preprocess/cuda/fused_launch.h"

namespace endcap {

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

}  // namespace endcap
