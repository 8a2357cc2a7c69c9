#include "endcap/preprocess.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
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

  const float* image(size_t i) const {
    return reinterpret_cast<const float*>(images.data() + i * images.size() / items.size());
  }
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

Tensors Preprocess(const ParameterList& list, const std::vector<ImageView>& images,
                   int threads = 1) {
  Preprocessor preprocessor(ParsePreprocessParams(list), threads);
  return Preprocess(preprocessor, images);
}

ImageView Rgb(const Bytes& pixels, int width, int height) {
  return ImageView::Interleaved(PixelFormat::kRgb, pixels.data(), width, height, width * 3);
}

TEST(Params, DefaultsAreThoseOfTheTable) {
  const PreprocessParams params = ParsePreprocessParams({});
  EXPECT_EQ(params.height, 640);
  EXPECT_EQ(params.pad_value, 114);
  EXPECT_DOUBLE_EQ(params.ResolvedScale(), 1.0 / 255.0);
  EXPECT_DOUBLE_EQ(ParsePreprocessParams({{"dtype", "uint8"}}).ResolvedScale(), 1.0);
  EXPECT_EQ(params.limits.max_pixels, 89478485);
}

TEST(Params, DescriptionsReadBack) {
  for (const std::string_view name : PresetNames()) {
    const auto described = DescribePreprocessParams(Preset(name));
    ParameterList list;
    for (const ParameterInfo& row : described) list.emplace_back(row.name, row.value);
    const auto again = DescribePreprocessParams(ParsePreprocessParams(list));
    ASSERT_EQ(again.size(), described.size());
    for (size_t i = 0; i < again.size(); ++i) {
      EXPECT_EQ(again[i].value, described[i].value) << again[i].name;
      EXPECT_FALSE(again[i].allowed.empty()) << again[i].name;
    }
  }
}

TEST(Params, APresetAppliesFirstWhereverItStands) {
  const auto params = ParsePreprocessParams({{"size", "64,32"}, {"preset", "ssd"}});
  EXPECT_EQ(params.height, 64);
  EXPECT_EQ(params.width, 32);
  EXPECT_EQ(params.fit, Fit::kStretch);
}

TEST(Params, RefusalsNameTheParameter) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"size", "0,640"},    {"size", "640,640,3"}, {"size", ""},           {"fit", "squeeze"},
      {"pad_value", "256"}, {"pad_value", "1.5"},  {"scale", "nan"},       {"scale", "0"},
      {"mean", "1,2"},      {"std", "0"},          {"antialias", "maybe"}, {"dtype", "int32"},
      {"max_side", "0"},    {"preset", "mine"},    {"unknown_one", "1"}};
  for (const auto& [name, text] : bad) {
    EXPECT_TRUE(Throws(ErrorCode::kInvalidArgument, name,
                       [&, n = name, t = text] { ParsePreprocessParams({{n, t}}); }))
        << name << " = " << text;
  }
  EXPECT_TRUE(Throws(ErrorCode::kInvalidArgument, "jpeg_decoder",
                     [] { ParsePreprocessParams({{"jpeg_decoder", "nvjpeg"}}); }));
  EXPECT_TRUE(Throws(ErrorCode::kUnsupported, "jpeg_decoder",
                     [] { Preprocessor{ParsePreprocessParams({{"jpeg_decoder", "hybrid"}})}; }));
}

TEST(Outputs, FollowTheParameters) {
  const auto params = ParsePreprocessParams(
      {{"size", "48,64"}, {"layout", "nhwc"}, {"dtype", "int8"}, {"color", "gray"}});
  const auto specs = PreprocessOutputs(params);
  ASSERT_EQ(specs.size(), 3U);
  EXPECT_EQ(specs[0].name, "images");
  EXPECT_EQ(specs[0].dtype, DType::kInt8);
  EXPECT_EQ(specs[0].shape[0], 48);
  EXPECT_EQ(specs[0].shape[2], 1);
  EXPECT_EQ(specs[1].name, "geometry");
  EXPECT_EQ(specs[1].shape[0], Geometry::kSize);
  EXPECT_EQ(specs[2].name, "status");
}

TEST(Preprocess, APictureOfTheTensorsSizeIsOnlyNormalised) {
  const Bytes pixels = MakePixels(12, 20, 3);
  const Tensors result = Preprocess({{"size", "12,20"}}, {Rgb(pixels, 20, 12)});
  for (size_t c = 0; c < 3; ++c) {
    for (size_t i = 0; i < 12 * 20; ++i) {
      const auto expected = static_cast<float>(pixels[3 * i + c] * (1.0 / 255.0));
      ASSERT_EQ(result.image(0)[c * 240 + i], expected);
    }
  }
  EXPECT_EQ(result.geometry, (std::vector<float>{1, 1, 0, 0, 20, 12, 1, 0}));
}

TEST(Preprocess, LetterboxPadsAroundTheImage) {
  const Bytes white(10 * 40 * 3, 255);  // 10 rows of 40 pixels into 33 x 40: 11 rows above
  const Tensors result = Preprocess({{"size", "33,40"}, {"scale", "1"}}, {Rgb(white, 40, 10)});
  for (int y = 0; y < 33; ++y) {
    const float expected = y >= 11 && y < 21 ? 255.0F : 114.0F;
    for (int x = 0; x < 40; ++x) ASSERT_EQ(result.image(0)[y * 40 + x], expected) << y;
  }
  EXPECT_EQ(result.geometry, (std::vector<float>{1, 1, 0, 11, 40, 10, 1, 0}));
}

TEST(Preprocess, AnOddPixelOfPaddingGoesToTheRight) {
  const Bytes white(8 * 5 * 3, 255);  // 5 columns into 8: one left, two right
  const Tensors result = Preprocess({{"size", "8,8"}, {"scale", "1"}}, {Rgb(white, 5, 8)});
  for (int x = 0; x < 8; ++x) {
    EXPECT_EQ(result.image(0)[x], x >= 1 && x < 6 ? 255.0F : 114.0F) << x;
  }
  EXPECT_EQ(result.geometry, (std::vector<float>{1, 1, 1, 0, 5, 8, 1, 0}));
}

TEST(Preprocess, BgrSwapsChannelsBeforeNormalising) {
  const Bytes pixel = {10, 20, 30};
  const ParameterList list = {{"size", "1"}, {"scale", "1"}, {"color", "bgr"}, {"mean", "1,2,3"}};
  const Tensors result = Preprocess(list, {Rgb(pixel, 1, 1)});
  const std::vector<float> channels(result.image(0), result.image(0) + 3);
  EXPECT_EQ(channels, (std::vector<float>{29, 18, 7}));
}

TEST(Preprocess, BilinearHalvesByAveraging) {
  const Bytes pixels = MakePixels(20, 30, 3);
  const ParameterList list = {{"size", "10,15"}, {"fit", "stretch"}, {"scale", "1"}};
  const Tensors rounded = Preprocess(list, {Rgb(pixels, 30, 20)});
  ParameterList unrounded = list;
  unrounded.emplace_back("quantize", "none");
  const Tensors exact = Preprocess(unrounded, {Rgb(pixels, 30, 20)});
  for (size_t y = 0; y < 10; ++y) {
    for (size_t x = 0; x < 15; ++x) {
      const size_t from = (2 * y * 30 + 2 * x) * 3;
      const int sum = pixels[from] + pixels[from + 3] + pixels[from + 90] + pixels[from + 93];
      ASSERT_EQ(rounded.image(0)[y * 15 + x], static_cast<float>((sum + 2) / 4));
      ASSERT_NEAR(exact.image(0)[y * 15 + x], sum / 4.0, 1e-4);  // float32 sums of four products
    }
  }
}

TEST(Preprocess, AreaTakesTheMeanOfWholeBlocks) {
  const Bytes pixels = MakePixels(21, 30, 3);
  const ParameterList list = {
      {"size", "7,10"}, {"fit", "stretch"}, {"scale", "1"}, {"interpolation", "area"}};
  const Tensors result = Preprocess(list, {Rgb(pixels, 30, 21)});
  for (size_t y = 0; y < 7; ++y) {
    for (size_t x = 0; x < 10; ++x) {
      int sum = 0;
      for (size_t i = 0; i < 9; ++i) sum += pixels[((3 * y + i / 3) * 30 + 3 * x + i % 3) * 3];
      ASSERT_EQ(result.image(0)[y * 10 + x], std::nearbyint(sum / 9.0));
    }
  }
}

TEST(Preprocess, EveryFilterLeavesAFlatPictureFlat) {
  const Bytes flat(20 * 31 * 3, 201);
  for (const std::string filter : {"nearest", "bilinear", "bicubic", "area"}) {
    for (const std::string antialias : {"false", "true"}) {
      if (filter == "nearest" && antialias == "true") continue;
      for (const std::string quantize : {"uint8", "none"}) {
        for (const std::string size : {"7,9", "10,31", "33,12", "50,64"}) {
          const ParameterList list = {{"size", size},         {"fit", "stretch"},
                                      {"scale", "1"},         {"interpolation", filter},
                                      {"quantize", quantize}, {"antialias", antialias}};
          const Tensors result = Preprocess(list, {Rgb(flat, 31, 20)});
          const size_t count = result.images.size() / sizeof(float);
          for (size_t i = 0; i < count; ++i) {
            // Exact in 8 bits; in float, weights that sum to 1 but for their roundings.
            ASSERT_NEAR(result.image(0)[i], 201.0F, quantize == "none" ? 1e-3F : 0.0F)
                << filter << " antialias " << antialias << " size " << size;
          }
        }
      }
    }
  }
}

TEST(Preprocess, BottomUpRowsAreReadByTheirStride) {
  const Bytes pixels = MakePixels(9, 14, 3);
  Bytes flipped;
  for (int y = 8; y >= 0; --y) {
    flipped.insert(flipped.end(), pixels.begin() + y * 42, pixels.begin() + (y + 1) * 42);
  }
  const auto bottom_up =
      ImageView::Interleaved(PixelFormat::kRgb, flipped.data() + 8 * 42, 14, 9, -42);
  const ParameterList list = {{"size", "32,32"}};
  EXPECT_EQ(Preprocess(list, {bottom_up}).images, Preprocess(list, {Rgb(pixels, 14, 9)}).images);
}

TEST(Preprocess, ABadImageLeavesABlankAndItsNeighboursWhole) {
  const Bytes good = MakeJpeg(40, 60);
  const Bytes bad(good.begin(), good.begin() + static_cast<ptrdiff_t>(good.size() / 2));
  const ParameterList list = {{"size", "32,48"}};
  const Tensors batch = Preprocess(list, {Encoded(good), Encoded(bad), Encoded(good)}, 2);
  const Tensors alone = Preprocess(list, {Encoded(good)});
  EXPECT_EQ(batch.status, (std::vector<int32_t>{0, 1, 0}));
  EXPECT_FALSE(batch.items[1].status.message.empty());
  const size_t bytes = alone.images.size();
  EXPECT_TRUE(std::equal(alone.images.begin(), alone.images.end(), batch.images.begin()));
  EXPECT_TRUE(std::equal(alone.images.begin(), alone.images.end(),
                         batch.images.begin() + static_cast<ptrdiff_t>(2 * bytes)));
  EXPECT_TRUE(std::all_of(batch.images.begin() + static_cast<ptrdiff_t>(bytes),
                          batch.images.begin() + static_cast<ptrdiff_t>(2 * bytes),
                          [](uint8_t byte) { return byte == 0; }));
  const std::vector<float> blank(batch.geometry.begin() + 8, batch.geometry.begin() + 16);
  EXPECT_EQ(blank, (std::vector<float>{1, 1, 0, 0, 0, 0, 1, 1}));
}

TEST(Preprocess, ThreadsDoNotChangeResults) {
  std::vector<Bytes> files;
  for (int i = 0; i < 9; ++i) files.push_back(MakeJpeg(20 + 7 * i, 90 - 6 * i, i % 2 == 0 ? 3 : 1));
  std::vector<ImageView> views;
  for (const Bytes& file : files) views.push_back(Encoded(file));
  const ParameterList list = {{"size", "48,64"}};
  const Tensors one = Preprocess(list, views, 1);
  for (const int threads : {2, 4}) {
    const Tensors more = Preprocess(list, views, threads);
    EXPECT_EQ(more.images, one.images);
    EXPECT_EQ(more.geometry, one.geometry);
  }
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

}  // namespace
}  // namespace endcap
