#pragma once

#include "common/row_band.h"
#include "endcap/decode.h"
#include "endcap/image_view.h"
#include "endcap/implementation.h"
#include "endcap/preprocess.h"

namespace endcap {

// The size and orientation of an image, encoded or pixels, as `params` want it read. Throws as
// ReadHeader and CheckPixels, and kUnsupported for pixels in GPU memory.
ImageHeader ReadImageHeader(const PreprocessParams& params, const ImageView& image);

// Throws kInvalidArgument when a view of pixels cannot be read (no data, zero size, or as
// CheckYuv), kImageLimit past `limits`.
void CheckPixels(const ImageView& image, const DecodeLimits& limits);

// Hands the rows of a part of an image that is already decoded to `sink`, as RGB (channels = 3),
// RGB and a byte that means nothing (4) or gray (1). The part lies inside the image, and its pixels
// are those that the whole image has there. Gray to RGB repeats the value; RGB to gray is BT.601
// luma; YUV to gray is its own luma at full range, and to RGB as YuvRows has it.
void PixelsToBands(Implementation implementation, const ImageView& image, const PixelRect& part,
                   int channels, BandSink& sink);

}  // namespace endcap
