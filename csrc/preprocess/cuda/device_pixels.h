#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "endcap/image_view.h"
#include "preprocess/cuda/fused_launch.h"

namespace endcap {

// Pixels on their way to the GPU: those in CPU memory are copied plane by plane, those in its own
// memory are read where they lie.
class DevicePixels {
 public:
  // The view is checked, and is not encoded; its memory must outlive this.
  explicit DevicePixels(const ImageView& view);

  // Bytes that Copy writes and that go up; 0 for pixels that are on the device already.
  size_t staged_bytes() const noexcept { return staged_bytes_; }
  // `staged` is aligned to kPlaneAlignment.
  void Copy(uint8_t* staged) const;
  // What Add of FusedPlan wants, once the staged bytes are at `device`.
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
