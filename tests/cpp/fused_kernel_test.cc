// The kernel that makes tensors, launched for the host, against the CPU's scalar implementation:
// every bit.

#include <gtest/gtest.h>

#include "fused_inputs.h"

namespace endcap {
namespace {

using testing::Bytes;
using testing::Describe;
using testing::ExpectSamePixels;
using testing::Filter;
using testing::FusedBatch;
using testing::kFilters;
using testing::MakeJpeg;
using testing::MakePixels;
using testing::OnCpu;
using testing::Pixels;
using testing::Sized;

constexpr std::array kDTypes = {DType::kFloat32, DType::kFloat16, DType::kUint8, DType::kInt8};

// Calls check with every filter, arithmetic and fit.
template <typename Check>
void ForEachResize(PreprocessParams params, Check check) {
  for (const Filter& filter : kFilters) {
    params.interpolation = filter.interpolation;
    params.antialias = filter.antialias;
    for (const Quantize quantize : {Quantize::kUint8, Quantize::kNone}) {
      params.quantize = quantize;
      for (const Fit fit : {Fit::kLetterbox, Fit::kStretch, Fit::kCenterCrop}) {
        params.fit = fit;
        check(params);
      }
    }
  }
}

TEST(FusedKernel, EveryParameterOfATensor) {
  const Bytes pixels = MakePixels(45, 67, 3);
  PreprocessParams params = Sized(21, 28);
  params.resize_shorter = 33;
  params.mean = {0.485, 0.456, 0.406};
  params.std = {0.229, 0.224, 0.225};
  ForEachResize(params, [&](PreprocessParams resize) {
    for (const DType dtype : kDTypes) {
      for (const Color color : {Color::kRgb, Color::kBgr, Color::kGray}) {
        for (const Layout layout : {Layout::kNchw, Layout::kNhwc}) {
          resize.dtype = dtype;
          resize.color = color;
          resize.layout = layout;
          ExpectSamePixels(resize, Pixels(PixelFormat::kRgb, pixels, 67, 45), Describe(resize));
        }
      }
    }
  });
}

TEST(FusedKernel, EveryWidthOfATensor) {
  const Bytes pixels = MakePixels(17, 53, 3);
  for (int width = 1; width <= 70; ++width) {
    for (const DType dtype : kDTypes) {
      for (const Layout layout : {Layout::kNchw, Layout::kNhwc}) {
        PreprocessParams params = Sized(3, width);
        params.dtype = dtype;
        params.layout = layout;
        ExpectSamePixels(params, Pixels(PixelFormat::kRgb, pixels, 53, 17), Describe(params));
      }
    }
  }
}

TEST(FusedKernel, EverySizeOfAnImageThroughEveryFilter) {
  for (int side = 1; side <= 40; side += side < 12 ? 1 : 5) {
    const Bytes pixels = MakePixels(side, 41 - side, 3);
    PreprocessParams params = Sized(12, 16);
    params.resize_shorter = 20;
    ForEachResize(params, [&](const PreprocessParams& resize) {
      ExpectSamePixels(resize, Pixels(PixelFormat::kRgb, pixels, 41 - side, side),
                       "height " + std::to_string(side) + ": " + Describe(resize));
    });
  }
}

TEST(FusedKernel, AnAreaOfWholeRatiosAndHalves) {
  for (const int ratio : {1, 2, 3, 4}) {
    const Bytes pixels = MakePixels(12 * ratio, 16 * ratio, 3);
    PreprocessParams params = Sized(12, 16);
    params.interpolation = Interpolation::kArea;
    ExpectSamePixels(params, Pixels(PixelFormat::kRgb, pixels, 16 * ratio, 12 * ratio),
                     "ratio " + std::to_string(ratio));
  }
}

TEST(FusedKernel, PaddingOnEverySideAndAnyColumn) {
  for (int height = 8; height <= 40; height += 3) {
    const Bytes pixels = MakePixels(height, 23, 3);
    for (const PadAlign align : {PadAlign::kCenter, PadAlign::kTopLeft}) {
      for (const bool upscale : {false, true}) {
        PreprocessParams params = Sized(26, 36, Fit::kLetterbox);
        params.pad_align = align;
        params.upscale = upscale;
        params.pad_value = 77;
        ExpectSamePixels(params, Pixels(PixelFormat::kRgb, pixels, 23, height), Describe(params));
      }
    }
  }
}

TEST(FusedKernel, PixelsOfEveryFormatAlignmentAndStride) {
  const Bytes memory = MakePixels(40, 120, 3);
  for (const PixelFormat format : {PixelFormat::kRgb, PixelFormat::kBgr, PixelFormat::kGray}) {
    for (const Color color : {Color::kRgb, Color::kBgr, Color::kGray}) {
      for (const int width : {1, 7, 8, 9, 31, 40}) {
        for (const int extra : {0, 1, 2, 3}) {
          PreprocessParams params = Sized(9, 12);
          params.color = color;
          const ptrdiff_t stride = width * (format == PixelFormat::kGray ? 1 : 3) + extra;
          ImageView image = ImageView::Interleaved(format, memory.data(), width, 19, stride);
          FusedBatch batch(params);
          for (size_t offset = 0; offset < 16; ++offset) batch.AddPixels(image, offset);
          const Bytes expected = OnCpu(params, image);
          for (const Bytes& tensor : batch.Run()) EXPECT_TRUE(tensor == expected);
          image.planes[0] = {memory.data() + stride * 18, -stride};
          ExpectSamePixels(params, image, "bottom up, width " + std::to_string(width));
        }
      }
    }
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

TEST(FusedKernel, NormalisationsThatNeedATable) {
  const Bytes pixels = MakePixels(20, 30, 3);
  const ImageView image = Pixels(PixelFormat::kRgb, pixels, 30, 20);
  int tables = 0;
  for (const DType dtype : kDTypes) {
    for (const double scale : {1e-9, 1.0 / 255.0, 0.5, 3.7, 1e9}) {
      for (const double mean : {0.0, 127.5, -1e9}) {
        PreprocessParams params = Sized(8, 16);
        params.dtype = dtype;
        params.scale = scale;
        params.mean = {mean, 0.1, 1.0 / 3.0};
        params.std = {0.7, -3.0, 1e-9};
        FusedBatch batch(params);
        batch.AddPixels(image);
        tables += batch.plan().Launch(nullptr).normalize == FusedNormalize::kTable ? 1 : 0;
        EXPECT_TRUE(batch.Run()[0] == OnCpu(params, image)) << Describe(params);
      }
    }
  }
  EXPECT_GT(tables, 0);
}

TEST(FusedKernel, ABatchOfEverything) {
  const Bytes pixels = MakePixels(20, 30, 3);
  const ImageView image = Pixels(PixelFormat::kRgb, pixels, 30, 20);
  const Bytes file = MakeJpeg(61, 35);
  const Bytes gray = MakeJpeg(11, 90, 1);
  const PreprocessParams params = Sized(16, 24, Fit::kLetterbox);
  FusedBatch batch(params);
  batch.AddPixels(image);
  batch.AddBlank();
  batch.AddJpeg(testing::Encoded(file));
  const size_t with_one_of_a_size = batch.plan().block_bytes();
  batch.AddJpeg(testing::Encoded(file));
  EXPECT_LE(batch.plan().block_bytes(), with_one_of_a_size + sizeof(FusedImage) + 16)
      << "images of one size share their taps";
  batch.AddJpeg(testing::Encoded(gray));
  const auto tensors = batch.Run();
  const Bytes expected = OnCpu(params, testing::Encoded(file));
  EXPECT_TRUE(tensors[0] == OnCpu(params, image));
  EXPECT_TRUE(tensors[1] == Bytes(tensors[1].size(), 0));
  EXPECT_TRUE(tensors[2] == expected);
  EXPECT_TRUE(tensors[3] == expected);
  EXPECT_TRUE(tensors[4] == OnCpu(params, testing::Encoded(gray)));
}

}  // namespace
}  // namespace endcap
