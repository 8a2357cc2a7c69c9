// The kernel that makes tensors, launched for the host, against the CPU's scalar path: every bit.

#include <gtest/gtest.h>

#include <sstream>

#include "fused_batch.h"

namespace endcap {
namespace {

using testing::Bytes;
using testing::ExpectSameJpeg;
using testing::ExpectSamePixels;
using testing::FusedBatch;
using testing::JpegOptions;
using testing::MakeJpeg;
using testing::MakePixels;
using testing::OnCpu;

ImageView Pixels(PixelFormat format, const Bytes& pixels, int width, int height) {
  const int channels = format == PixelFormat::kGray ? 1 : 3;
  return ImageView::Interleaved(format, pixels.data(), width, height, width * channels);
}

PreprocessParams Sized(int height, int width, Fit fit = Fit::kStretch) {
  PreprocessParams params;
  params.height = height;
  params.width = width;
  params.fit = fit;
  return params;
}

std::string Describe(const PreprocessParams& params) {
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
constexpr std::array kFilters = {
    Filter{Interpolation::kNearest, false}, Filter{Interpolation::kBilinear, false},
    Filter{Interpolation::kBicubic, false}, Filter{Interpolation::kArea, false},
    Filter{Interpolation::kBilinear, true}, Filter{Interpolation::kBicubic, true},
    Filter{Interpolation::kArea, true}};
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

// Rows of padding, rows at a window's edge and the last, too few rows, each at any place in a
// block.
TEST(FusedKernel, BlocksOfSeveralRows) {
  const Bytes pixels = MakePixels(23, 40, 3);
  const ImageView image = Pixels(PixelFormat::kRgb, pixels, 40, 23);
  for (const Filter& filter : kFilters) {
    for (const Fit fit : {Fit::kLetterbox, Fit::kStretch, Fit::kCenterCrop}) {
      PreprocessParams params = Sized(31, 24, fit);
      params.resize_shorter = 40;
      params.interpolation = filter.interpolation;
      params.antialias = filter.antialias;
      const Bytes expected = OnCpu(params, image);
      FusedBatch batch(params);
      batch.AddPixels(image);
      batch.AddBlank();
      batch.AddPixels(image, 5);
      for (int rows = 1; rows <= 33; rows += rows < 6 ? 1 : 9) {
        batch.set_block_rows(rows);
        const auto tensors = batch.Run();
        EXPECT_TRUE(tensors[0] == expected) << rows << " rows: " << Describe(params);
        EXPECT_TRUE(tensors[1] == Bytes(expected.size(), 0)) << rows << " rows";
        EXPECT_TRUE(tensors[2] == expected) << rows << " rows: " << Describe(params);
      }
    }
  }
}

TEST(FusedKernel, ManyRowsAreSharedAmongFewerBlocks) {
  const Bytes pixels = MakePixels(3, 4, 3);
  FusedBatch batch(Sized(640, 4));
  for (int images = 1; images <= 64; ++images) {
    batch.plan().Clear();
    for (int i = 0; i < images; ++i) batch.AddPixels(Pixels(PixelFormat::kRgb, pixels, 4, 3));
    const int rows = batch.plan().Launch(nullptr).block_rows;
    EXPECT_LE(rows, kFusedMaxBlockRows);
    EXPECT_TRUE(rows == 1 || images * 640 / rows >= kFusedManyBlocks) << images << " images";
    if (images == 1) {
      EXPECT_EQ(rows, 1);
    }
    if (images == 64) {
      EXPECT_EQ(rows, kFusedMaxBlockRows);
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
    batch.set_tensor_offset(SizeOf(dtype));
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

// Which way an image takes, alone in its batch.
FusedWay WayOf(const PreprocessParams& params, const ImageView& image) {
  FusedBatch batch(params);
  batch.AddPixels(image);
  const FusedLaunch launch = batch.plan().Launch(nullptr);
  const auto* way = std::find(std::begin(launch.way_count), std::end(launch.way_count), 1);
  return static_cast<FusedWay>(way - std::begin(launch.way_count));
}

TEST(FusedKernel, PositionsOfTheWidestImages) {
  const int width = 65500;
  const Bytes pixels = MakePixels(3, width, 1);
  const PreprocessParams params = Sized(2, 8);
  const ImageView image = Pixels(PixelFormat::kGray, pixels, width, 3);
  ExpectSamePixels(params, image, "in place");
  EXPECT_EQ(WayOf(params, image), FusedWay::kInPlace);
}

// Mirrored and upside down, rows that begin and end anywhere, of two blocks' columns.
TEST(FusedKernel, CopiedRowsOfEveryOrientationThatKeepsTheSides) {
  constexpr int kHeight = 9;
  for (const int width : {1, 2, 40, 1500, 8181}) {
    const Bytes pixels = MakePixels(kHeight, width, 3);
    for (int orientation = 1; orientation <= 4; ++orientation) {
      const bool mirrored = orientation == 2 || orientation == 3;
      const bool upside_down = orientation >= 3;
      Bytes upright;
      for (int y = 0; y < kHeight; ++y) {
        for (int x = 0; x < width; ++x) {
          const int from =
              (upside_down ? kHeight - 1 - y : y) * width + (mirrored ? width - 1 - x : x);
          const auto pixel = pixels.begin() + 3 * ptrdiff_t{from};
          upright.insert(upright.end(), pixel, pixel + 3);
        }
      }
      for (const Filter& filter : kFilters) {
        PreprocessParams params = Sized(5, width == 1500 ? 1100 : 24);
        params.interpolation = filter.interpolation;
        params.antialias = filter.antialias;
        FusedBatch batch(params);
        for (const size_t offset : {size_t{0}, size_t{7}}) {
          batch.AddPixels(Pixels(PixelFormat::kRgb, pixels, width, kHeight), offset, orientation);
        }
        const FusedLaunch launch = batch.plan().Launch(nullptr);
        EXPECT_EQ(launch.way_count[static_cast<int>(FusedWay::kCopied)], 2);
        const Bytes expected = OnCpu(params, Pixels(PixelFormat::kRgb, upright, width, kHeight));
        for (const int rows : {1, 2}) {
          batch.set_block_rows(rows);
          for (const Bytes& tensor : batch.Run()) {
            EXPECT_TRUE(tensor == expected)
                << "width " << width << ", orientation " << orientation << ": " << Describe(params);
          }
        }
      }
    }
  }
}

TEST(FusedKernel, RowsTooWideForSharedMemoryAreReadInPlace) {
  const int width = kFusedMaxStagedBytes / 3 + 9;
  const Bytes pixels = MakePixels(7, width, 3);
  for (const Filter& filter : kFilters) {
    PreprocessParams params = Sized(5, 8);
    params.interpolation = filter.interpolation;
    params.antialias = filter.antialias;
    ExpectSamePixels(params, Pixels(PixelFormat::kRgb, pixels, width, 7), Describe(params));
    JpegOptions options;
    for (options.orientation = 1; options.orientation <= 8; ++options.orientation) {
      ExpectSameJpeg(params, testing::WriteJpeg(pixels, 7, width, 3, options),
                     "orientation " + std::to_string(options.orientation) + Describe(params));
    }
  }
}

TEST(FusedKernel, WideAndNarrowImagesInOneBatch) {
  const int width = kFusedMaxStagedBytes / 3 + 9;
  const Bytes wide = MakePixels(3, width, 3);
  const Bytes narrow = MakePixels(20, 30, 3);
  const PreprocessParams params = Sized(5, 8, Fit::kLetterbox);
  FusedBatch batch(params);
  batch.AddPixels(Pixels(PixelFormat::kRgb, narrow, 30, 20));
  batch.AddPixels(Pixels(PixelFormat::kRgb, wide, width, 3));
  batch.AddBlank();
  const auto tensors = batch.Run();
  EXPECT_TRUE(tensors[0] == OnCpu(params, Pixels(PixelFormat::kRgb, narrow, 30, 20)));
  EXPECT_TRUE(tensors[1] == OnCpu(params, Pixels(PixelFormat::kRgb, wide, width, 3)));
  EXPECT_TRUE(tensors[2] == Bytes(tensors[2].size(), 0));
}

TEST(FusedKernel, RowsThatFitOneAtATimeOnly) {
  PreprocessParams params = Sized(5, 8);
  params.antialias = true;
  const int copied = kFusedMaxStagedBytes / 6 - 11;  // twice, see FusedBuffers
  const int staged = kFusedMaxStagedBytes / 4 - 11;
  for (const bool antialias : {false, true}) {
    params.antialias = antialias;
    const Bytes colors = MakePixels(7, copied, 3);
    ExpectSamePixels(params, Pixels(PixelFormat::kRgb, colors, copied, 7), "copied");
    EXPECT_EQ(WayOf(params, Pixels(PixelFormat::kRgb, colors, copied, 7)), FusedWay::kCopied);
    const Bytes wider = MakePixels(7, staged, 3);
    ExpectSamePixels(params, Pixels(PixelFormat::kRgb, wider, staged, 7), "too wide to be copied");
    EXPECT_EQ(WayOf(params, Pixels(PixelFormat::kRgb, wider, staged, 7)), FusedWay::kStaged);
    const Bytes grays = MakePixels(7, staged, 1);
    ExpectSamePixels(params, Pixels(PixelFormat::kGray, grays, staged, 7), "staged");
    EXPECT_EQ(WayOf(params, Pixels(PixelFormat::kGray, grays, staged, 7)), FusedWay::kStaged);
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
