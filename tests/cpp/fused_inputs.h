#pragma once

#include <array>
#include <sstream>
#include <string>

#include "fused_batch.h"

// What the tests of the kernel that makes tensors are given.

namespace endcap::testing {

inline ImageView Pixels(PixelFormat format, const Bytes& pixels, int width, int height) {
  const int channels = format == PixelFormat::kGray ? 1 : 3;
  return ImageView::Interleaved(format, pixels.data(), width, height, width * channels);
}

inline PreprocessParams Sized(int height, int width, Fit fit = Fit::kStretch) {
  PreprocessParams params;
  params.height = height;
  params.width = width;
  params.fit = fit;
  return params;
}

inline std::string Describe(const PreprocessParams& params) {
  std::ostringstream text;
  for (const ParameterInfo& info : DescribePreprocessParams(params)) {
    text << info.name << ' ' << info.value << ", ";
  }
  return text.str();
}

struct Filter {
  Interpolation interpolation;
  bool antialias;
};
inline constexpr std::array kFilters = {
    Filter{Interpolation::kNearest, false}, Filter{Interpolation::kBilinear, false},
    Filter{Interpolation::kBicubic, false}, Filter{Interpolation::kArea, false},
    Filter{Interpolation::kBilinear, true}, Filter{Interpolation::kBicubic, true},
    Filter{Interpolation::kArea, true}};

}  // namespace endcap::testing
