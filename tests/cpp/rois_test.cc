#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "endcap/preprocess.h"
#include "error_matchers.h"
#include "image_tensor.h"
#include "jpeg_writer.h"
#include "preprocess/roi_targets.h"

namespace endcap {
namespace {

using testing::Bytes;
using testing::Encoded;
using testing::ImageTensor;
using testing::MakeJpeg;
using testing::MakePixels;
using testing::Throws;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinite = std::numeric_limits<float>::infinity();

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
  Bytes tensor(size_t roi) const {
    const auto* first = images_.data() + roi * bytes_;
    return {first, first + bytes_};
  }

 private:
  std::vector<Roi> rois_;
  size_t bytes_;
  Bytes images_;
  std::vector<float> geometry_;
  std::vector<int32_t> status_;
  std::vector<PreprocessOutput> outputs_;
  PreprocessInput job_;
};

PreprocessParams Params() { return ParsePreprocessParams({{"size", "24,32"}}); }

// The tensor of pixels that were cut out of a decoded image.
Bytes MakeCutTensor(const PreprocessParams& params, const PixelBuffer& image,
                    const PixelRect& rect) {
  Bytes tensor(ImageTensor(params, nullptr).size_bytes());
  const ptrdiff_t stride = ptrdiff_t{3} * image.format.width;
  const std::array images = {ImageView::Interleaved(
      PixelFormat::kRgb, image.pixels.data() + stride * rect.y + ptrdiff_t{3} * rect.x, rect.width,
      rect.height, stride)};
  const std::array outputs = {
      PreprocessOutput{ImageTensor(params, tensor.data()), nullptr, nullptr, 0}};
  EXPECT_TRUE(Preprocessor(params, 1).Run(images, outputs)[0].status.ok());
  return tensor;
}

bool IsZero(const Bytes& bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0; });
}

TEST(RoiRect, RoundsOutwardAndClips) {
  const auto rect = [](const Roi& roi) {
    const PixelRect r = ClipRoi(roi, 0, 1, 100, 50);
    return std::vector<int>{r.x, r.y, r.width, r.height};
  };
  EXPECT_EQ(rect({10.0F, 20.0F, 30.0F, 40.0F}), (std::vector<int>{10, 20, 20, 20}));
  EXPECT_EQ(rect({10.9F, 20.1F, 11.1F, 20.2F}), (std::vector<int>{10, 20, 2, 1}));
  EXPECT_EQ(rect({-5.0F, -1e30F, 1e30F, 0.25F}), (std::vector<int>{0, 0, 100, 1}));
  EXPECT_EQ(rect({99.5F, 49.5F, 99.75F, 80.0F}), (std::vector<int>{99, 49, 1, 1}));
}

TEST(RoiRect, RefusalsNameTheRegion) {
  const std::vector<std::pair<Roi, std::string>> bad = {
      {{kNan, 0.0F, 5.0F, 5.0F}, "finite"},       {{0.0F, 0.0F, kInfinite, 5.0F}, "finite"},
      {{5.0F, 0.0F, 5.0F, 5.0F}, "empty"},        {{5.5F, 0.0F, 5.2F, 5.0F}, "empty"},
      {{0.0F, 9.0F, 5.0F, 3.0F}, "empty"},        {{100.0F, 0.0F, 120.0F, 5.0F}, "100x50"},
      {{-9.0F, 0.0F, 0.0F, 5.0F}, "100x50"},      {{0.0F, 50.0F, 5.0F, 60.0F}, "100x50"},
      {{-1.5F, -1.5F, -0.5F, -0.5F}, "no pixel"},
  };
  for (const auto& [roi, reason] : bad) {
    EXPECT_TRUE(
        Throws(ErrorCode::kInvalidArgument, reason, [&, r = roi] { ClipRoi(r, 3, 7, 100, 50); }));
    EXPECT_TRUE(Throws(ErrorCode::kInvalidArgument, "roi index 3 of 7",
                       [&, r = roi] { ClipRoi(r, 3, 7, 100, 50); }));
  }
}

TEST(Rois, AreThePixelsCutOutOfTheDecodedImage) {
  const PreprocessParams params = Params();
  const Bytes file = MakeJpeg(90, 120);
  const PixelBuffer whole = Decode(Encoded(file), {}, {}, true);
  RoiBatch batch(
      params, Encoded(file),
      {{3.0F, 50.0F, 60.0F, 80.0F}, {0.0F, 0.0F, 120.0F, 90.0F}, {100.5F, 7.5F, 130.0F, 9.0F}});
  const auto items = Preprocessor(params, 2).Run({&batch.job(), 1});
  ASSERT_EQ(items.size(), 1U);
  EXPECT_TRUE(items[0].status.ok()) << items[0].status.message;
  EXPECT_EQ(items[0].decoder, JpegDecoder::kCpu);
  EXPECT_GT(items[0].decode_ns, 0);
  EXPECT_EQ(batch.tensor(0), MakeCutTensor(params, whole, {3, 50, 57, 30}));
  EXPECT_EQ(batch.tensor(1), MakeCutTensor(params, whole, {0, 0, 120, 90}));
  EXPECT_EQ(batch.tensor(2), MakeCutTensor(params, whole, {100, 7, 20, 2}));
}

TEST(Rois, GeometryMapsToTheWholeImage) {
  const PreprocessParams params = Params();
  const Bytes pixels = MakePixels(90, 120, 3);
  const ImageView image =
      ImageView::Interleaved(PixelFormat::kRgb, pixels.data(), 120, 90, ptrdiff_t{3} * 120);
  RoiBatch batch(params, image, {{40.0F, 20.0F, 56.0F, 44.0F}});
  Preprocessor(params, 1).Run({&batch.job(), 1});
  // 16x24 pixels into 32x24: scale 1, 8 columns of padding, the region's corner at 40, 20.
  const std::vector<float> expected = {1, 1, 8 - 40, -20, 120, 90, 1, 0};
  EXPECT_EQ(std::vector<float>(batch.geometry(0), batch.geometry(0) + 8), expected);
}

TEST(Rois, ABadOneTouchesNoOther) {
  const PreprocessParams params = Params();
  const Bytes file = MakeJpeg(90, 120);
  const Roi good{10.0F, 10.0F, 40.0F, 30.0F};
  RoiBatch batch(params, Encoded(file), {good, {0.0F, 0.0F, 0.0F, 0.0F}, good});
  RoiBatch alone(params, Encoded(file), {good});
  Preprocessor preprocessor(params, 2);
  const std::array jobs = {batch.job(), alone.job()};
  const auto items = preprocessor.Run(jobs);
  EXPECT_EQ(items[0].status.code, ErrorCode::kInvalidArgument);
  EXPECT_NE(items[0].status.message.find("roi index 1 of 3"), std::string::npos);
  EXPECT_TRUE(items[0].rois[0].ok() && items[0].rois[2].ok() && items[1].status.ok());
  EXPECT_EQ(batch.status(1), static_cast<int32_t>(ErrorCode::kInvalidArgument));
  EXPECT_TRUE(IsZero(batch.tensor(1)));
  EXPECT_EQ(batch.geometry(1)[0], 1.0F);
  EXPECT_EQ(batch.geometry(1)[4], 0.0F);
  EXPECT_EQ(batch.tensor(0), alone.tensor(0));
  EXPECT_EQ(batch.tensor(2), alone.tensor(0));
}

TEST(Rois, ACorruptImageFailsAllOfItsOwn) {
  const PreprocessParams params = Params();
  const Bytes file = MakeJpeg(90, 120);
  const Bytes cut(file.begin(), file.begin() + static_cast<ptrdiff_t>(file.size() / 2));
  const std::vector<Roi> rois = {{0.0F, 0.0F, 20.0F, 10.0F}, {0.0F, 60.0F, 120.0F, 90.0F}};
  RoiBatch bad(params, Encoded(cut), rois);
  RoiBatch good(params, Encoded(file), rois);
  const std::array jobs = {bad.job(), good.job()};
  const auto items = Preprocessor(params, 2).Run(jobs);
  EXPECT_EQ(items[0].status.code, ErrorCode::kCorruptImage);
  EXPECT_TRUE(items[1].status.ok());
  for (const size_t i : {size_t{0}, size_t{1}}) {
    EXPECT_EQ(bad.status(i), static_cast<int32_t>(ErrorCode::kCorruptImage));
    EXPECT_TRUE(IsZero(bad.tensor(i)));
    EXPECT_EQ(good.status(i), 0);
  }
}

TEST(Rois, NoneAtAllReadsTheHeaderOnly) {
  const PreprocessParams params = Params();
  const Bytes file = MakeJpeg(20, 20);
  const Bytes nothing = {0xFF, 0xD8, 0xFF};
  const PreprocessInput good{Encoded(file), std::span<const Roi>{}, {}};
  const PreprocessInput bad{Encoded(nothing), std::span<const Roi>{}, {}};
  const std::array jobs = {good, bad};
  const auto items = Preprocessor(params, 1).Run(jobs);
  EXPECT_TRUE(items[0].status.ok());
  EXPECT_EQ(items[0].decoder, JpegDecoder::kAuto);
  EXPECT_EQ(items[1].status.code, ErrorCode::kCorruptImage);
}

TEST(Rois, TooManyAreRefusedBeforeAnyWork) {
  const PreprocessParams params = ParsePreprocessParams({{"size", "8,8"}, {"max_rois", "2"}});
  const Bytes file = MakeJpeg(20, 20);
  const Roi roi{0.0F, 0.0F, 9.0F, 9.0F};
  RoiBatch batch(params, Encoded(file), {roi, roi, roi});
  EXPECT_TRUE(Throws(ErrorCode::kInvalidArgument, "max_rois allows 2",
                     [&] { Preprocessor(params, 1).Run({&batch.job(), 1}); }));
  EXPECT_EQ(batch.status(0), -1);
}

TEST(Rois, TensorsOfTooManyBytesAreRefusedBeforeAnyWork) {
  // 3 x 8 x 8 float32 take 768 bytes.
  const ParameterList list = {{"size", "8,8"}, {"max_roi_bytes", "1536"}};
  const PreprocessParams params = ParsePreprocessParams(list);
  const Bytes file = MakeJpeg(20, 20);
  const Roi roi{0.0F, 0.0F, 9.0F, 9.0F};
  RoiBatch two(params, Encoded(file), {roi, roi});
  EXPECT_TRUE(Preprocessor(params, 1).Run({&two.job(), 1})[0].status.ok());
  RoiBatch three(params, Encoded(file), {roi, roi, roi});
  EXPECT_TRUE(Throws(ErrorCode::kInvalidArgument,
                     "the tensors of 3 rois take 2304 bytes; max_roi_bytes allows 1536",
                     [&] { Preprocessor(params, 1).Run({&three.job(), 1}); }));
  EXPECT_EQ(three.status(0), -1);
  EXPECT_TRUE(
      Throws(ErrorCode::kInvalidArgument, "max_roi_bytes", [&] { CheckRoiTensors(params, 3); }));
  CheckRoiCount(params, 3);
  // The default holds 1000 regions for a classifier.
  CheckRoiTensors(ParsePreprocessParams({{"size", "224"}}), 1000);
  EXPECT_TRUE(Throws(ErrorCode::kInvalidArgument, "max_roi_bytes",
                     [&] { CheckRoiTensors(ParsePreprocessParams({}), 1000); }));
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
      {{1, 2, 30, 9}}, {{1, 2, 30, 9}, {9, 9, 3, 3}, {20, 20, 60, 60}}, {{kNan, 0, 1, 1}}, {}};
  Preprocessor preprocessor(Params(), 2);
  for (size_t i = 0; i < images.size(); ++i) {
    for (const std::vector<Roi>& rois : choices) {
      RoiBatch expected(Params(), images[i], rois);
      RoiBatch actual(Params(), images[i], rois);
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
