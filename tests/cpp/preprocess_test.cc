// Preprocessing's outputs that are wrong or not wanted, and the choice of a DCT scale. Tensors are
// held to the reference in tests/python/core.

#include "endcap/preprocess.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "error_matchers.h"
#include "image_tensor.h"
#include "jpeg_writer.h"
#include "preprocess/placement.h"
#include "yuv_images.h"

namespace endcap {
namespace {

using testing::Bytes;
using testing::Encoded;
using testing::ImageTensor;
using testing::MakeJpeg;
using testing::MakePixels;
using testing::Preprocess;
using testing::Results;
using testing::Throws;
using testing::YuvImage;

ImageView Rgb(const Bytes& pixels, int width, int height) {
  return ImageView::Interleaved(PixelFormat::kRgb, pixels.data(), width, height, width * 3);
}

TEST(Params, APresetAppliesFirstWhereverItStands) {
  const auto params = ParsePreprocessParams({{"size", "64,32"}, {"preset", "ssd"}});
  EXPECT_EQ(params.height, 64);
  EXPECT_EQ(params.width, 32);
  EXPECT_EQ(params.fit, Fit::kStretch);
}

TEST(Preprocess, WrongOutputsAreRefusedBeforeAnyWork) {
  Preprocessor preprocessor(ParsePreprocessParams({{"size", "8,8"}}), 1);
  const Bytes file = MakeJpeg(8, 8);
  const std::vector<ImageView> images = {Encoded(file)};
  std::vector<float> memory(3 * 8 * 8, 5.0F);
  PreprocessOutput output{ImageTensor(preprocessor.params(), memory.data())};
  const auto refused = [&](std::vector<PreprocessOutput> outputs) {
    return Throws(ErrorCode::kInvalidArgument, "", [&] { preprocessor.Run(images, outputs); });
  };
  EXPECT_TRUE(refused({}));
  PreprocessOutput wrong = output;
  wrong.image.dtype = DType::kUint8;
  EXPECT_TRUE(refused({wrong}));
  wrong = output;
  wrong.image.shape[1] = 9;
  EXPECT_TRUE(refused({wrong}));
  EXPECT_TRUE(std::all_of(memory.begin(), memory.end(), [](float v) { return v == 5.0F; }));
}

void ExpectRefused(const ImageView& view, const std::string& what,
                   ErrorCode code = ErrorCode::kInvalidArgument) {
  Preprocessor preprocessor(ParsePreprocessParams({{"size", "8,8"}}), 1);
  const Results result = Preprocess(preprocessor, {view});
  const ItemStatus& status = result.items[0].status;
  EXPECT_EQ(status.code, code) << what;
  EXPECT_NE(status.message.find(what), std::string::npos) << status.message;
  EXPECT_EQ(result.tensors[0], Bytes(result.tensors[0].size(), 0));
}

TEST(Preprocess, PlanesThatCannotBeReadAreRefused) {
  const YuvImage nv12(PixelFormat::kNv12, 6, 10);
  const YuvImage planar(PixelFormat::kPlanarYuv, 6, 10);
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
  ExpectRefused(view, "max_side", ErrorCode::kImageLimit);
}

// 6/8 and 7/8 are not chosen, whatever the size.
TEST(Preprocess, FastDecodesAtTheFewestEighthsThatAreNotTooSmall) {
  PreprocessParams params;
  params.fit = Fit::kStretch;
  params.height = params.width = 64;
  const auto eighths = [&](int width, int height) {
    return DecodedEighths(params, Place(params, width, height), width, height);
  };
  params.decode = DecodeMode::kFast;
  EXPECT_EQ(eighths(5000, 512), 1);
  EXPECT_EQ(eighths(505, 600), 1);  // 63.1 is rounded up
  EXPECT_EQ(eighths(504, 504), 2);
  EXPECT_EQ(eighths(253, 600), 2);
  EXPECT_EQ(eighths(252, 600), 3);
  EXPECT_EQ(eighths(600, 168), 4);
  EXPECT_EQ(eighths(126, 126), 5);
  EXPECT_EQ(eighths(101, 101), 5);
  EXPECT_EQ(eighths(100, 100), 8);
  EXPECT_EQ(eighths(20, 5000), 8);
  params.decode = DecodeMode::kExact;
  EXPECT_EQ(eighths(5000, 5000), 8);
}

TEST(Preprocess, WithoutTensorsStatusAndGeometryAreTheSame) {
  const Bytes good = MakeJpeg(40, 60);
  const Bytes cut(good.begin(), good.begin() + static_cast<ptrdiff_t>(good.size() / 2));
  const Bytes rotated = MakeJpeg(40, 60, 3, {.orientation = 6});
  const Bytes pixels = MakePixels(40, 60, 3);
  const std::vector<ImageView> images = {Encoded(good), Encoded(cut), Encoded(rotated),
                                         Rgb(pixels, 60, 40), ImageView::Encoded(nullptr, 0)};
  const std::vector<ParameterList> recipes = {
      {{"size", "8,8"}},
      {{"size", "8,8"}, {"decode", "fast"}},
      {{"size", "8,8"}, {"fit", "center_crop"}, {"resize_shorter", "20"}, {"color", "gray"}}};
  for (const ParameterList& recipe : recipes) {
    Preprocessor preprocessor(ParsePreprocessParams(recipe), 2);
    const Results expected = Preprocess(preprocessor, images);
    const Results actual = Preprocess(preprocessor, images, /*wants_tensors=*/false);
    EXPECT_EQ(actual.status, (std::vector<int32_t>{0, 1, 0, 0, 1}));
    EXPECT_EQ(actual.status, expected.status);
    EXPECT_EQ(actual.geometry, expected.geometry);
    for (size_t i = 0; i < images.size(); ++i) {
      EXPECT_EQ(actual.items[i].status.message, expected.items[i].status.message);
      EXPECT_EQ(actual.items[i].decoder, expected.items[i].decoder);
    }
  }
}

// What is read of an image whose tensors nobody wants, and what is found there.
TEST(Rois, WithoutTensorsHaveTheSameStatusAndGeometry) {
  const Bytes good = MakeJpeg(60, 80);
  const Bytes cut(good.begin(), good.begin() + static_cast<ptrdiff_t>(good.size() / 2));
  const Bytes rotated = MakeJpeg(60, 80, 3, {.orientation = 6});
  const Bytes transposed_cut(rotated.begin(),
                             rotated.begin() + static_cast<ptrdiff_t>(good.size() / 2));
  const Bytes pixels = MakePixels(60, 80, 3);
  const std::vector<ImageView> images = {
      Encoded(good), Encoded(cut), Encoded(rotated), Encoded(transposed_cut),
      ImageView::Interleaved(PixelFormat::kRgb, pixels.data(), 80, 60, 240)};
  const std::vector<std::vector<Roi>> choices = {
      {{1, 2, 30, 9}},
      {{1, 2, 30, 9}, {9, 9, 3, 3}, {20, 20, 60, 60}},
      {{std::numeric_limits<float>::quiet_NaN(), 0, 1, 1}},
      {}};
  const PreprocessParams params = ParsePreprocessParams({{"size", "24,32"}});
  Preprocessor preprocessor(params, 2);
  for (size_t i = 0; i < images.size(); ++i) {
    for (const std::vector<Roi>& rois : choices) {
      Results expected(rois.size());
      Results actual(rois.size());
      const auto expected_outputs = expected.Outputs(params);
      auto outputs = actual.Outputs(params, /*wants_tensors=*/false);
      const PreprocessInput expected_job{images[i], rois, expected_outputs};
      const PreprocessInput job{images[i], rois, outputs};
      const PreprocessItem with = preprocessor.Run({&expected_job, 1})[0];
      const PreprocessItem without = preprocessor.Run({&job, 1})[0];
      EXPECT_EQ(without.status.message, with.status.message) << i;
      EXPECT_EQ(without.decoder, with.decoder) << i;
      for (size_t k = 0; k < rois.size(); ++k) {
        EXPECT_EQ(without.rois[k].message, with.rois[k].message) << i;
      }
      EXPECT_EQ(actual.status, expected.status) << i;
      EXPECT_EQ(actual.geometry, expected.geometry) << i;
      if (rois.size() < 2) continue;
      outputs[0].image = expected_outputs[0].image;
      EXPECT_TRUE(
          Throws(ErrorCode::kInvalidArgument, "1 of 3 rois", [&] { preprocessor.Run({&job, 1}); }));
    }
  }
}

}  // namespace
}  // namespace endcap
