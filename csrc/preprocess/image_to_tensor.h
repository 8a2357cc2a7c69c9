#pragma once

#include <cstdint>

#include "endcap/preprocess.h"

namespace endcap {

// The size and orientation of an image, encoded or pixels, as `params` want it read. Throws as
// ReadHeader and CheckHostPixels.
ImageHeader ReadImageHeader(const PreprocessParams& params, const ImageView& image);

// One image into one output. Throws Error when the image is bad; the output is then undefined.
// Returns the nanoseconds spent in the JPEG decoder.
int64_t ImageToTensor(const PreprocessParams& params, const ImageView& image,
                      const PreprocessOutput& output);

}  // namespace endcap
