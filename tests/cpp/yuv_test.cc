// Pixels in YUV: the implementations against a JPEG's pixels and against each other.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "common/color_conversion.h"
#include "decode/planes.h"
#include "endcap/implementation.h"
#include "endcap/preprocess.h"
#include "image_tensor.h"
#include "jpeg_writer.h"
#include "preprocess/pixels/yuv_rows.h"
#include "simd_targets.h"
#include "yuv_images.h"

namespace endcap {
namespace {

using testing::Bytes;
using testing::CompareTargetsWithScalar;
using testing::Encoded;
using testing::ImageTensor;
using testing::MakeJpeg;
using testing::YuvImage;
using testing::YuvKind;

PreprocessParams Square(int side) {
  PreprocessParams params;
  params.height = params.width = side;
  params.dtype = DType::kUint8;
  return params;
}

struct Result {
  ItemStatus status;
  Bytes tensor;
};

Result Preprocess(const PreprocessParams& params, const ImageView& image) {
  Result result;
  result.tensor.resize(ImageTensor(params, nullptr).size_bytes());
  const std::array outputs = {
      PreprocessOutput{ImageTensor(params, result.tensor.data()), nullptr, nullptr, 0}};
  result.status = Preprocessor(params, 1).Run({&image, 1}, outputs)[0].status;
  return result;
}

Bytes MakeTensor(const PreprocessParams& params, const ImageView& image) {
  Result result = Preprocess(params, image);
  EXPECT_TRUE(result.status.ok()) << result.status.message;
  return std::move(result.tensor);
}

TEST(YuvPixels, OfAJpegsPlanesAreTheJpegs) {
  for (const int step_x : {1, 2}) {
    for (const int step_y : {1, 2}) {
      for (const auto& [height, width] : {std::pair(45, 67), {64, 48}, {7, 9}, {33, 130}}) {
        const Bytes file =
            MakeJpeg(height, width, 3, {.luma_columns = step_x, .luma_rows = step_y});
        JpegPlaneReader reader(Encoded(file), ReadHeader(Encoded(file), {}), {});
        const JpegPlaneLayout layout = reader.layout();
        ASSERT_TRUE(layout.available);
        Bytes block(layout.size_bytes);
        reader.Decode(block.data());
        ImageView view;
        view.format = PixelFormat::kPlanarYuv;
        view.width = width;
        view.height = height;
        view.chroma_step_x = step_x;
        view.chroma_step_y = step_y;
        view.range = YuvRange::kFull;
        for (size_t i = 0; i < 3; ++i) {
          view.planes[i] = {block.data() + layout.planes[i].offset_bytes,
                            static_cast<ptrdiff_t>(layout.planes[i].row_stride_bytes)};
        }
        // As large as the file, and resized, as colors and as gray.
        for (const int side : {std::max(height, width), 20}) {
          for (const Color color : {Color::kRgb, Color::kBgr, Color::kGray}) {
            PreprocessParams params = Square(side);
            params.color = color;
            CompareTargetsWithScalar(
                Stage::kPreprocess,
                [&] {
                  return std::pair(MakeTensor(params, Encoded(file)), MakeTensor(params, view));
                },
                [&](const auto& scalar, const auto& simd, const std::string& target) {
                  EXPECT_TRUE(scalar.second == scalar.first) << step_x << "x" << step_y;
                  EXPECT_TRUE(simd.second == scalar.first)
                      << step_x << "x" << step_y << " " << target;
                });
          }
        }
      }
    }
  }
}

void ExpectRefused(const ImageView& view, const std::string& what) {
  const Result result = Preprocess(Square(8), view);
  EXPECT_EQ(result.status.code, ErrorCode::kInvalidArgument) << what;
  EXPECT_NE(result.status.message.find(what), std::string::npos) << result.status.message;
  EXPECT_EQ(result.tensor, Bytes(result.tensor.size(), 0));
}

TEST(YuvPixels, WhatCannotBeReadIsRefused) {
  const YuvImage nv12(YuvKind{}, 6, 10);
  const YuvImage planar({PixelFormat::kPlanarYuv}, 6, 10);
  ImageView view = nv12.view;
  view.planes[0].data = nullptr;
  ExpectRefused(view, "pixels; both sides");
  view = nv12.view;
  view.planes[1].data = nullptr;
  ExpectRefused(view, "no UV plane");
  view = planar.view;
  view.planes[2].data = nullptr;
  ExpectRefused(view, "no V plane");
  view = planar.view;
  view.chroma_step_x = 4;
  ExpectRefused(view, "chroma step of 1 or 2");
  view = planar.view;
  view.chroma_step_y = 0;
  ExpectRefused(view, "chroma step of 1 or 2");
  view = nv12.view;
  view.planes[1].row_stride_bytes = 9;
  ExpectRefused(view, "rows of the UV plane lie 9 bytes apart; each has 10");
  view = planar.view;
  view.planes[0].row_stride_bytes = -9;
  ExpectRefused(view, "rows of the Y plane lie -9 bytes apart");
  view = planar.view;
  view.width = 70000;
  view.planes[0].row_stride_bytes = view.planes[1].row_stride_bytes = 70000;
  view.planes[2].row_stride_bytes = 70000;
  EXPECT_EQ(Preprocess(Square(8), view).status.code, ErrorCode::kImageLimit);
}

}  // namespace
}  // namespace endcap
