#pragma once

#include "endcap/decode.h"
#include "endcap/image_view.h"
#include "endcap/row_band.h"

namespace endcap {

// Throws kInvalidArgument when a view of pixels cannot be read (no data, zero size), kUnsupported
// for a format or device that this build cannot read, kImageLimit past `limits`.
void CheckPixels(const ImageView& image, const DecodeLimits& limits);

// Hands the rows of an image that is already decoded to `sink`, as RGB (channels = 3), RGB and a
// byte that means nothing (4) or gray (1). Gray to RGB repeats the value; color to gray is BT.601
// luma.
void PixelsToBands(const ImageView& image, int channels, BandSink& sink);

}  // namespace endcap
