#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "common/half.h"
#include "common/host_device.h"
#include "endcap/tensor_view.h"

namespace endcap {

// A binary16 number as stored.
struct Half {
  uint16_t bits;
};

// Calls visit with a value of the type that a tensor's elements have.
template <typename Visit>
void WithElementType(DType dtype, Visit visit) {
  switch (dtype) {
    case DType::kUint8:
      return visit(uint8_t{});
    case DType::kInt8:
      return visit(int8_t{});
    case DType::kFloat16:
      return visit(Half{});
    case DType::kFloat32:
    case DType::kInt32:  // not a tensor's; Validate refuses them
    case DType::kInt64:
      break;
  }
  visit(float{});
}

// y = (x * scale - mean) / std in float32 step by step, for pixels that are not quantized.
struct SingleNormalize {
  float scale = 1.0F;
  float mean = 0.0F;
  float std = 1.0F;

  ENDCAP_HOST_DEVICE float Apply(float pixel) const { return (pixel * scale - mean) / std; }
};

// y = (x * scale - mean) / std for one channel.
struct ChannelNormalize {
  double scale = 1.0;
  double mean = 0.0;
  double std = 1.0;

  // For the 256 values of 8-bit pixels: in double, so that one rounding is left.
  double Exact(int pixel) const { return (pixel * scale - mean) / std; }
  SingleNormalize InSingle() const {
    return {static_cast<float>(scale), static_cast<float>(mean), static_cast<float>(std)};
  }
  float Single(float pixel) const { return InSingle().Apply(pixel); }
};

// Stores a number as T: integers round half to even and saturate; NaN cannot occur.
template <typename T, typename Real>
ENDCAP_HOST_DEVICE inline T StoreAs(Real value) {
  if constexpr (std::is_same_v<T, Half>) {
    return Half{FloatToHalf(static_cast<float>(value))};
  } else if constexpr (std::is_integral_v<T>) {
    const Real low = std::numeric_limits<T>::min();
    const Real high = std::numeric_limits<T>::max();
    const Real rounded = std::nearbyint(value);
    return static_cast<T>(rounded < low ? low : (rounded > high ? high : rounded));
  } else {
    return static_cast<T>(value);
  }
}

// y = pixel * scale + offset in float32 with the error of one rounding: scale and offset are
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

// Splits a normalisation. Returns false where that does not give ChannelNormalize::Exact as
// float32, bit for bit, for all of the 256 pixels.
bool Split(const ChannelNormalize& normalize, SplitNormalize& split);

}  // namespace endcap
