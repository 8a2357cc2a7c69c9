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

namespace endcap {
namespace {

using testing::Bytes;
using testing::Encoded;
using testing::ImageTensor;
using testing::MakeJpeg;
using testing::MakePixels;
using testing::Throws;

struct Tensors {
  std::vector<uint8_t> images;  // raw bytes of the batch
  std::vector<float> geometry;
  std::vector<int32_t> status;
  std::vector<PreprocessItem> items;
};

Tensors Preprocess(Preprocessor& preprocessor, const std::vector<ImageView>& images) {
  const size_t bytes = ImageTensor(preprocessor.params(), nullptr).size_bytes();
  Tensors result;
  result.images.assign(bytes * images.size(), 0xEE);
  result.geometry.assign(8 * images.size(), -1.0F);
  result.status.assign(images.size(), -1);
  std::vector<PreprocessOutput> outputs;
  for (size_t i = 0; i < images.size(); ++i) {
    outputs.push_back({ImageTensor(preprocessor.params(), result.images.data() + i * bytes),
                       result.geometry.data() + 8 * i, result.status.data() + i,
                       static_cast<int>(i)});
  }
  result.items = preprocessor.Run(images, outputs);
  return result;
}

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
    const Tensors expected = Preprocess(preprocessor, images);
    std::vector<float> geometry(8 * images.size(), -1.0F);
    std::vector<int32_t> status(images.size(), -1);
    std::vector<PreprocessOutput> outputs;
    for (size_t i = 0; i < images.size(); ++i) {
      outputs.push_back({{}, geometry.data() + 8 * i, &status[i], static_cast<int>(i)});
    }
    const std::vector<PreprocessItem> items = preprocessor.Run(images, outputs);
    EXPECT_EQ(status, (std::vector<int32_t>{0, 1, 0, 0, 1}));
    EXPECT_EQ(status, expected.status);
    EXPECT_EQ(geometry, expected.geometry);
    for (size_t i = 0; i < images.size(); ++i) {
      EXPECT_EQ(items[i].status.message, expected.items[i].status.message);
      EXPECT_EQ(items[i].decoder, expected.items[i].decoder);
    }
  }
}

// The tensors of the regions of one image, and the memory they lie in.
class RoiBatch {
 public:
  RoiBatch(const PreprocessParams& params, const ImageView& image, std::vector<Roi> rois)
      : rois_(std::move(rois)), bytes_(ImageTensor(params, nullptr).size_bytes()) {
    images_.assign(bytes_ * rois_.size(), 0xEE);
    geometry_.assign(8 * rois_.size(), -1.0F);
    status_.assign(rois_.size(), -1);
    for (size_t i = 0; i < rois_.size(); ++i) {
      outputs_.push_back({ImageTensor(params, images_.data() + i * bytes_),
                          geometry_.data() + 8 * i, status_.data() + i, 0});
    }
    job_ = {image, rois_, outputs_};
  }
  RoiBatch(const RoiBatch&) = delete;
  RoiBatch& operator=(const RoiBatch&) = delete;

  const PreprocessInput& job() const { return job_; }
  const float* geometry(size_t roi) const { return geometry_.data() + 8 * roi; }
  int32_t status(size_t roi) const { return status_[roi]; }

 private:
  std::vector<Roi> rois_;
  size_t bytes_;
  Bytes images_;
  std::vector<float> geometry_;
  std::vector<int32_t> status_;
  std::vector<PreprocessOutput> outputs_;
  PreprocessInput job_;
};

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
      RoiBatch expected(params, images[i], rois);
      RoiBatch actual(params, images[i], rois);
      std::vector<PreprocessOutput> outputs(actual.job().outputs.begin(),
                                            actual.job().outputs.end());
      for (PreprocessOutput& output : outputs) output.image.data = nullptr;
      const PreprocessInput job{images[i], rois, outputs};
      const PreprocessItem with = preprocessor.Run({&expected.job(), 1})[0];
      const PreprocessItem without = preprocessor.Run({&job, 1})[0];
      EXPECT_EQ(without.status.message, with.status.message) << i;
      EXPECT_EQ(without.decoder, with.decoder) << i;
      for (size_t k = 0; k < rois.size(); ++k) {
        EXPECT_EQ(without.rois[k].message, with.rois[k].message) << i;
        EXPECT_EQ(actual.status(k), expected.status(k)) << i;
        EXPECT_TRUE(std::equal(expected.geometry(k), expected.geometry(k) + 8, actual.geometry(k)));
      }
      if (rois.size() < 2) continue;
      outputs[0].image = expected.job().outputs[0].image;
      EXPECT_TRUE(
          Throws(ErrorCode::kInvalidArgument, "1 of 3 rois", [&] { preprocessor.Run({&job, 1}); }));
    }
  }
}

}  // namespace
}  // namespace endcap
