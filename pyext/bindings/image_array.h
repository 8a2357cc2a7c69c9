#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "endcap/image_view.h"

namespace endcap::python {

// An array of an image, or of a plane of one, wherever it lies.
struct ImageArray {
  const uint8_t* data = nullptr;
  int64_t item_bytes = 1;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides_bytes;
  Device device = Device::kCpu;
  int device_id = 0;
};

// 1-D is encoded, 2-D gray pixels, 3-D interleaved pixels in `format`. Throws kInvalidArgument.
ImageView MakeView(const ImageArray& array, PixelFormat format);

// How the planes of an image in YUV are given.
struct YuvFormat {
  std::string layout;  // "nv12" or "planar"
  std::string matrix;  // "bt601", "bt709" or "bt2020"
  std::string range;   // "full" or "limited"
};

// nv12: one array [H*3/2,W] for even H and W, or Y [H,W] and UV [ceil(H/2),ceil(W/2),2]. planar: Y
// [H,W], U and V [ceil(H/a),ceil(W/b)] with a, b 1 or 2. Throws kInvalidArgument.
ImageView MakeYuvView(const std::vector<ImageArray>& arrays, const YuvFormat& format);

}  // namespace endcap::python
