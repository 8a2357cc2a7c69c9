#pragma once

#include <array>

namespace endcap {

// The placement of a source image in a tensor; one row of the `geometry` tensor, float32 [8]. Boxes
// are mapped back by x_source = (x_tensor - pad_x) / scale_x, clipped to [0, image_w]; y likewise
// (common/map_box.h); rotated boxes by postprocess/map_extras.h, and are not clipped. Tests:
// tests/python/core/test_postprocess.py and test_obb.py. Source pixels are those of the image after
// EXIF orientation was applied, with `exif: ignore` as stored.
struct Geometry {
  static constexpr int kSize = 8;

  float scale_x = 1.0F;  // resized width / image_w, both in whole pixels
  float scale_y = 1.0F;
  float pad_x = 0.0F;  // columns left of the image in the tensor; negative where it was cropped
  float pad_y = 0.0F;
  float image_w = 0.0F;  // source pixels, after EXIF orientation
  float image_h = 0.0F;
  float orientation = 1.0F;   // EXIF orientation that was applied, 1 to 8; for information only
  float source_index = 0.0F;  // index of the image in its request

  std::array<float, kSize> ToArray() const noexcept {
    return {scale_x, scale_y, pad_x, pad_y, image_w, image_h, orientation, source_index};
  }
  static Geometry FromArray(const float* values) noexcept {
    return {values[0], values[1], values[2], values[3], values[4], values[5], values[6], values[7]};
  }
};

}  // namespace endcap
