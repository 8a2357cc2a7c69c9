#pragma once

#include <cmath>

#include "preprocess/normalize.h"

namespace endcap {

// y = pixel * scale + offset in float32 with the error of one rounding: scale and offset stand as
// sums of a coarse part, with which product and sum are exact for pixels 0 to 255, and the rest.
struct SplitNormalize {
  float coarse_scale = 0.0F;
  float fine_scale = 0.0F;
  float coarse_offset = 0.0F;
  float fine_offset = 0.0F;

  ENDCAP_HOST_DEVICE float Apply(float pixel) const {
    return (pixel * coarse_scale + coarse_offset) + (pixel * fine_scale + fine_offset);
  }
  // The same from fused multiplications and additions: the coarse part is exact either way, the
  // rest has one rounding less.
  ENDCAP_HOST_DEVICE float ApplyFused(float pixel) const {
    return fmaf(pixel, coarse_scale, coarse_offset) + fmaf(pixel, fine_scale, fine_offset);
  }
};

// Takes a normalisation apart. Returns false where that does not give ChannelNormalize::Exact as
// float32, bit for bit, for all of the 256 pixels.
bool Split(const ChannelNormalize& normalize, SplitNormalize& split);

}  // namespace endcap
