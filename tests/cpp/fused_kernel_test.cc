// The kernel that makes tensors, launched for the host, against the CPU's scalar implementation:
// every bit.

#include <gtest/gtest.h>

#include "fused_batch.h"

namespace endcap {
namespace {

using testing::Bytes;
using testing::Describe;
using testing::ExpectSameJpeg;
using testing::ExpectSamePixels;
using testing::Filter;
using testing::FusedBatch;
using testing::JpegOptions;
using testing::kFilters;
using testing::MakeJpeg;
using testing::MakePixels;
using testing::OnCpu;
using testing::Pixels;
using testing::Sized;

constexpr std::array kDTypes = {DType::kFloat32, DType::kFloat16, DType::kUint8, DType::kInt8};

TEST(FusedKernel, AnAreaOfWholeRatiosAndHalves) {
  for (const int ratio : {1, 2, 3, 4}) {
    const Bytes pixels = MakePixels(12 * ratio, 16 * ratio, 3);
    PreprocessParams params = Sized(12, 16);
    params.interpolation = Interpolation::kArea;
    ExpectSamePixels(params, Pixels(PixelFormat::kRgb, pixels, 16 * ratio, 12 * ratio),
                     "ratio " + std::to_string(ratio));
  }
}

TEST(FusedKernel, TensorsAtOddAddresses) {
  const Bytes pixels = MakePixels(20, 30, 3);
  const ImageView image = Pixels(PixelFormat::kRgb, pixels, 30, 20);
  for (const DType dtype : kDTypes) {
    PreprocessParams params = Sized(8, 16);
    params.dtype = dtype;
    FusedBatch batch(params);
    batch.set_tensor_offset(GetElementSize(dtype));
    batch.AddPixels(image);
    EXPECT_TRUE(batch.Run()[0] == OnCpu(params, image)) << DTypeName(dtype);
  }
}

TEST(FusedKernel, WideTensorsTakeSeveralBlocks) {
  const Bytes pixels = MakePixels(6, 90, 3);
  for (const int width : {1020, 1024, 1028, 2500}) {
    for (const Fit fit : {Fit::kStretch, Fit::kLetterbox}) {
      PreprocessParams params = Sized(5, width, fit);
      ExpectSamePixels(params, Pixels(PixelFormat::kRgb, pixels, 90, 6), Describe(params));
      params.antialias = true;
      ExpectSamePixels(params, Pixels(PixelFormat::kRgb, pixels, 90, 6), Describe(params));
    }
  }
}

// JPEG planes through the kernel.
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

std::string DescribeFile(const Sampling& sampling, int height, int width) {
  return std::to_string(sampling.channels) + " channels " + std::to_string(sampling.luma_columns) +
         "x" + std::to_string(sampling.luma_rows) + ", " + std::to_string(width) + "x" +
         std::to_string(height);
}

// The image's own size, so that every pixel shows.
TEST(FusedJpeg, EverySizeOfEverySampling) {
  for (const Sampling& sampling : kSamplings) {
    for (int width = 5; width <= 40; ++width) {
      for (const int height : {1, 2, 3, 8, 17}) {
        PreprocessParams params = Sized(height, width);
        params.dtype = DType::kUint8;
        ExpectSameJpeg(params, File(sampling, height, width),
                       DescribeFile(sampling, height, width));
      }
    }
  }
}

TEST(FusedJpeg, EveryOrientationFilterAndColor) {
  for (const Sampling& sampling : kSamplings) {
    for (int orientation = 1; orientation <= 8; ++orientation) {
      const Bytes file = File(sampling, 45, 67, orientation);
      for (const Fit fit : {Fit::kLetterbox, Fit::kCenterCrop}) {
        for (const Filter& filter : kFilters) {
          for (const Quantize quantize : {Quantize::kUint8, Quantize::kNone}) {
            for (const Color color : {Color::kRgb, Color::kBgr, Color::kGray}) {
              PreprocessParams params = Sized(21, 30);
              params.fit = fit;
              params.resize_shorter = 33;
              params.interpolation = filter.interpolation;
              params.antialias = filter.antialias;
              params.quantize = quantize;
              params.color = color;
              ExpectSameJpeg(
                  params, file,
                  DescribeFile(sampling, 45, 67) + ", orientation " + std::to_string(orientation));
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
      ExpectSameJpeg(params, File(sampling, side, side + 9),
                     DescribeFile(sampling, side, side + 9));
    }
  }
}

}  // namespace
}  // namespace endcap
