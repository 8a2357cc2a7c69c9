#include <array>
#include <cstring>

#include "common/fail.h"
#include "endcap/decode.h"

namespace endcap {
namespace {

// Where pixel (0, 0) of the upright image stands in the stored one, and the steps to its right and
// lower neighbour. Source: Exif 2.3, orientation tag.
struct Walk {
  bool swap_axes;
  bool from_right;
  bool from_bottom;
};

constexpr std::array<Walk, 8> kWalks = {{
    {false, false, false},  // 1 upright
    {false, true, false},   // 2 mirrored left to right
    {false, true, true},    // 3 upside down
    {false, false, true},   // 4 mirrored top to bottom
    {true, false, false},   // 5 transposed
    {true, false, true},    // 6 to be turned 90 degrees clockwise
    {true, true, true},     // 7 transposed along the other diagonal
    {true, true, false},    // 8 to be turned 90 degrees counter-clockwise
}};

}  // namespace

PixelBuffer ApplyOrientation(const PixelBuffer& image, int orientation) {
  if (orientation < 1 || orientation > 8) {
    FailArgument("orientation is ", orientation, ": give 1 to 8");
  }
  const Walk walk = kWalks[static_cast<size_t>(orientation - 1)];
  const ptrdiff_t channels = image.format.channels;
  const ptrdiff_t row_stride = image.format.width * channels;
  const ptrdiff_t step_x = walk.from_right ? -channels : channels;
  const ptrdiff_t step_y = walk.from_bottom ? -row_stride : row_stride;
  const uint8_t* origin = image.pixels.data();
  if (walk.from_right) origin += row_stride - channels;
  if (walk.from_bottom) origin += row_stride * (image.format.height - 1);

  PixelBuffer upright;
  upright.format = image.format;
  if (walk.swap_axes) std::swap(upright.format.width, upright.format.height);
  upright.pixels.resize(image.pixels.size());
  const ptrdiff_t step_right = walk.swap_axes ? step_y : step_x;
  const ptrdiff_t step_down = walk.swap_axes ? step_x : step_y;
  uint8_t* out = upright.pixels.data();
  for (ptrdiff_t y = 0; y < upright.format.height; ++y) {
    const uint8_t* from = origin + y * step_down;
    for (ptrdiff_t x = 0; x < upright.format.width; ++x, from += step_right, out += channels) {
      std::memcpy(out, from, static_cast<size_t>(channels));
    }
  }
  return upright;
}

}  // namespace endcap
