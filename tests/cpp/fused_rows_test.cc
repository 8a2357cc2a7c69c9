// How the kernel that makes tensors reads an image's rows, in each variant, against the scalar
// implementation: every bit.

#include <gtest/gtest.h>

#include <algorithm>

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
using testing::MakePixels;
using testing::OnCpu;
using testing::Pixels;
using testing::Sized;

// Rows of padding, rows at a window's edge and the last, too few rows, each at any place in a
// block.
TEST(FusedRows, BlocksOfSeveralRows) {
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

// Returns the variant that an image takes, alone in its batch.
FusedVariant GetVariant(const PreprocessParams& params, const ImageView& image) {
  FusedBatch batch(params);
  batch.AddPixels(image);
  const FusedLaunch launch = batch.plan().Launch(nullptr);
  const auto* variant =
      std::find(std::begin(launch.variant_count), std::end(launch.variant_count), 1);
  return static_cast<FusedVariant>(variant - std::begin(launch.variant_count));
}

// Mirrored and upside down, rows that begin and end anywhere, of two blocks' columns.
TEST(FusedRows, CopiedRowsOfEveryOrientationThatKeepsTheSides) {
  constexpr int kHeight = 9;
  for (const int width : {1, 2, 40, 1500, 8181}) {
    const Bytes pixels = MakePixels(kHeight, width, 3);
    for (int orientation = 1; orientation <= 4; ++orientation) {
      const bool mirrored = orientation == 2 || orientation == 3;
      const bool upside_down = orientation >= 3;
      Bytes oriented;
      for (int y = 0; y < kHeight; ++y) {
        for (int x = 0; x < width; ++x) {
          const int from =
              (upside_down ? kHeight - 1 - y : y) * width + (mirrored ? width - 1 - x : x);
          const auto pixel = pixels.begin() + 3 * ptrdiff_t{from};
          oriented.insert(oriented.end(), pixel, pixel + 3);
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
        EXPECT_EQ(launch.variant_count[static_cast<int>(FusedVariant::kCopied)], 2);
        const Bytes expected = OnCpu(params, Pixels(PixelFormat::kRgb, oriented, width, kHeight));
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

TEST(FusedRows, RowsTooWideForSharedMemoryAreReadInPlace) {
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

TEST(FusedRows, WideAndNarrowImagesInOneBatch) {
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

TEST(FusedRows, RowsThatFitOneAtATimeOnly) {
  PreprocessParams params = Sized(5, 8);
  params.antialias = true;
  const int copied = kFusedMaxStagedBytes / 6 - 11;  // twice, see FusedBuffers
  const int staged = kFusedMaxStagedBytes / 4 - 11;
  for (const bool antialias : {false, true}) {
    params.antialias = antialias;
    const Bytes colors = MakePixels(7, copied, 3);
    ExpectSamePixels(params, Pixels(PixelFormat::kRgb, colors, copied, 7), "copied");
    EXPECT_EQ(GetVariant(params, Pixels(PixelFormat::kRgb, colors, copied, 7)),
              FusedVariant::kCopied);
    const Bytes wider = MakePixels(7, staged, 3);
    ExpectSamePixels(params, Pixels(PixelFormat::kRgb, wider, staged, 7), "too wide to be copied");
    EXPECT_EQ(GetVariant(params, Pixels(PixelFormat::kRgb, wider, staged, 7)),
              FusedVariant::kStaged);
    const Bytes grays = MakePixels(7, staged, 1);
    ExpectSamePixels(params, Pixels(PixelFormat::kGray, grays, staged, 7), "staged");
    EXPECT_EQ(GetVariant(params, Pixels(PixelFormat::kGray, grays, staged, 7)),
              FusedVariant::kStaged);
  }
}

}  // namespace
}  // namespace endcap
