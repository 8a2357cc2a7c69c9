#pragma once

#include <compare>

#include "endcap/decode.h"
#include "endcap/geometry.h"
#include "endcap/preprocess.h"

namespace endcap {

// Where an image goes: it is resized to resized_w x resized_h; of that, the window that starts at
// (crop_x, crop_y) and has visible_w x visible_h pixels lands in the tensor at (out_x, out_y).
struct Placement {
  int resized_w = 0;
  int resized_h = 0;
  int crop_x = 0;
  int crop_y = 0;
  int out_x = 0;
  int out_y = 0;
  int visible_w = 0;
  int visible_h = 0;

  auto operator<=>(const Placement&) const = default;
};

// Places an oriented image of image_w x image_h pixels. letterbox as ultralytics' LetterBox with
// auto=False; center_crop as torchvision's Resize(int) and CenterCrop.
Placement Place(const PreprocessParams& params, int image_w, int image_h);

// Of the rectangle of an image that was placed: the geometry maps to coordinates of that image.
Geometry MakeGeometry(const Placement& placement, const PixelRect& rect, const ImageHeader& header,
                      int source_index) noexcept;

// At how many eighths of its size a JPEG is decoded. `decode: fast`: the fewest, of 1 to 5, at
// which it is not smaller than what it is resized to; else 8.
int DecodedEighths(const PreprocessParams& params, const Placement& placement, int image_w,
                   int image_h) noexcept;

}  // namespace endcap
