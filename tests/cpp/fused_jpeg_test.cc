// JPEG planes through the kernel, launched for the host, against the CPU's scalar implementation:
// every bit.

#include <gtest/gtest.h>

#include "fused_batch.h"

namespace endcap {
namespace {

using testing::Bytes;
using testing::ExpectSameJpeg;
using testing::JpegOptions;
using testing::MakeJpeg;

struct Sampling {
  int channels;
  int luma_columns;
  int luma_rows;
};
constexpr std::array kSamplings = {Sampling{3, 1, 1}, Sampling{3, 2, 1}, Sampling{3, 1, 2},
                                   Sampling{3, 2, 2}, Sampling{1, 1, 1}};

Bytes File(const Sampling& sampling, int height, int width, int orientation = 0) {
  JpegOptions options;
  options.orientation = orientation;
  options.luma_columns = sampling.luma_columns;
  options.luma_rows = sampling.luma_rows;
  return MakeJpeg(height, width, sampling.channels, options);
}

std::string Describe(const Sampling& sampling, int height, int width) {
  return std::to_string(sampling.channels) + " channels " + std::to_string(sampling.luma_columns) +
         "x" + std::to_string(sampling.luma_rows) + ", " + std::to_string(width) + "x" +
         std::to_string(height);
}

PreprocessParams Sized(int height, int width) {
  PreprocessParams params;
  params.height = height;
  params.width = width;
  params.fit = Fit::kStretch;
  return params;
}

// The image's own size, so that every pixel shows.
TEST(FusedJpeg, EverySizeOfEverySampling) {
  for (const Sampling& sampling : kSamplings) {
    for (int width = 5; width <= 40; ++width) {
      for (const int height : {1, 2, 3, 8, 17}) {
        PreprocessParams params = Sized(height, width);
        params.dtype = DType::kUint8;
        ExpectSameJpeg(params, File(sampling, height, width), Describe(sampling, height, width));
      }
    }
  }
}

TEST(FusedJpeg, EveryOrientationFilterAndColor) {
  for (const Sampling& sampling : kSamplings) {
    for (int orientation = 1; orientation <= 8; ++orientation) {
      const Bytes file = File(sampling, 45, 67, orientation);
      for (const Fit fit : {Fit::kLetterbox, Fit::kCenterCrop}) {
        for (const auto interpolation : {Interpolation::kNearest, Interpolation::kBilinear,
                                         Interpolation::kBicubic, Interpolation::kArea}) {
          for (const bool antialias : {false, true}) {
            if (antialias && interpolation == Interpolation::kNearest) continue;
            for (const Quantize quantize : {Quantize::kUint8, Quantize::kNone}) {
              for (const Color color : {Color::kRgb, Color::kBgr, Color::kGray}) {
                PreprocessParams params = Sized(21, 30);
                params.fit = fit;
                params.resize_shorter = 33;
                params.interpolation = interpolation;
                params.antialias = antialias;
                params.quantize = quantize;
                params.color = color;
                ExpectSameJpeg(
                    params, file,
                    Describe(sampling, 45, 67) + ", orientation " + std::to_string(orientation));
              }
            }
          }
        }
      }
    }
  }
}

TEST(FusedJpeg, ScaledDecoding) {
  PreprocessParams params = Sized(20, 20);
  params.decode = DecodeMode::kFast;
  for (const Sampling& sampling : kSamplings) {
    const bool subsampled = sampling.luma_columns * sampling.luma_rows > 1;
    for (const int side : {33, 40, 41, 56, 85, 160, 175}) {
      if (side >= 160 && subsampled) continue;  // at 1/8 there are no planes of these
      ExpectSameJpeg(params, File(sampling, side, side + 9), Describe(sampling, side, side + 9));
    }
  }
}

}  // namespace
}  // namespace endcap
