// The C functions of preprocessing against the classes behind them, bit for bit.

#include <gtest/gtest.h>

#include "c_api_images.h"

namespace endcap {
namespace {

using namespace endcap::testing;  // NOLINT(google-build-using-namespace): the file's own fixtures

TEST(CApiPreprocess, ABatchIsThatOfTheCore) {
  const MixedImages mixed;
  const std::vector<ParameterList> lists = {
      {{"size", "24,32"}},
      {{"size", "32"}, {"dtype", "uint8"}, {"layout", "nhwc"}, {"fit", "stretch"}},
      {{"size", "20,48"}, {"dtype", "float16"}, {"color", "bgr"}, {"antialias", "true"}},
      {{"preset", "torchvision"}, {"size", "24"}, {"resize_shorter", "30"}},
      {{"size", "16"}, {"color", "gray"}, {"dtype", "int8"}, {"decode", "fast"}},
  };
  for (const ParameterList& list : lists) {
    SCOPED_TRACE(list[0].second);
    const ImageResults expected = ByCore(ParsePreprocessParams(list), mixed.images);
    for (const int32_t threads : {1, 3}) {
      EXPECT_TRUE(ByC(NewPreprocessor(list, ENDCAP_CPU, threads).get(), mixed.images) == expected);
    }
    for (const size_t i : MixedImages::kBad) {
      EXPECT_NE(expected.status[i], 0);
      EXPECT_NE(expected.messages[i], "");
    }
    EXPECT_EQ(expected.messages[0], "");
  }
}

TEST(CApiPreprocess, EveryImageMayHaveASizeOfItsOwn) {
  const MixedImages mixed;
  const ParameterList list = {{"size", "24,32"}, {"dtype", "uint8"}};
  std::vector<endcap_image> images;
  std::vector<Size> sizes;
  // More sizes than a handle keeps, some of them twice, and that of the parameters by both names.
  for (size_t i = 0; i < 40; ++i) {
    images.push_back(mixed.images[i % mixed.images.size()]);
    const int side = 8 + 2 * static_cast<int>(i % 23);
    sizes.push_back({side, side + 3});
  }
  sizes[3] = {24, 32};
  sizes[4] = {};
  const ImageResults expected = ByCore(ParsePreprocessParams(list), images, sizes);
  for (const int32_t threads : {1, 2}) {
    const PreprocessorHandle handle = NewPreprocessor(list, ENDCAP_CPU, threads);
    EXPECT_TRUE(ByC(handle.get(), images, sizes) == expected);
    EXPECT_TRUE(ByC(handle.get(), images, sizes) == expected);
  }
}

TEST(CApiPreprocess, GeometryAndStatusMayBeNull) {
  const MixedImages mixed;
  const PreprocessorHandle handle = NewPreprocessor({{"size", "8"}, {"dtype", "uint8"}});
  Bytes tensor(3 * 8 * 8);
  const endcap_preprocess_output output = {tensor.data(), tensor.size(), 0, 0, nullptr, nullptr, 0};
  ASSERT_EQ(endcap_preprocessor_run(handle.get(), mixed.images.data(), &output, 1, nullptr), 0);
  EXPECT_EQ(tensor, ByC(handle.get(), {mixed.images[0]}).tensors[0]);
  EXPECT_EQ(endcap_preprocessor_run(handle.get(), nullptr, nullptr, 0, nullptr), 0);
}

TEST(CApiPreprocess, TheTensorIsThatOfTheParametersOrOfASize) {
  const PreprocessorHandle handle =
      NewPreprocessor({{"size", "24,32"}, {"layout", "nhwc"}, {"dtype", "float16"}});
  endcap_tensor_spec spec;
  ASSERT_EQ(endcap_preprocessor_tensor(handle.get(), 0, 0, &spec), 0);
  EXPECT_STREQ(spec.name, "images");
  EXPECT_EQ(spec.dtype, ENDCAP_FLOAT16);
  EXPECT_EQ(spec.rank, 3);
  EXPECT_EQ(std::vector<int64_t>(spec.shape, spec.shape + 3), (std::vector<int64_t>{24, 32, 3}));
  ASSERT_EQ(endcap_preprocessor_tensor(handle.get(), 5, 7, &spec), 0);
  EXPECT_EQ(std::vector<int64_t>(spec.shape, spec.shape + 3), (std::vector<int64_t>{5, 7, 3}));
  EXPECT_TRUE(Refused("size is 0,7", endcap_preprocessor_tensor(handle.get(), 0, 7, &spec)));
  EXPECT_TRUE(Refused("size is -1,-1", endcap_preprocessor_tensor(handle.get(), -1, -1, &spec)));
  EXPECT_TRUE(Refused("spec is NULL", endcap_preprocessor_tensor(handle.get(), 0, 0, nullptr)));
  EXPECT_TRUE(Refused("preprocessor is NULL", endcap_preprocessor_tensor(nullptr, 0, 0, &spec)));
}

TEST(CApiPreprocess, BlanksTellsThePolicy) {
  EXPECT_EQ(endcap_preprocessor_blanks(NewPreprocessor({}).get()), 0);
  EXPECT_EQ(endcap_preprocessor_blanks(NewPreprocessor({{"on_error", "blank"}}).get()), 1);
  EXPECT_EQ(endcap_preprocessor_blanks(nullptr), 0);
}

TEST(CApiPreprocess, ChannelsLastTellsTheLayout) {
  EXPECT_EQ(endcap_preprocessor_channels_last(NewPreprocessor({}).get()), 0);
  EXPECT_EQ(endcap_preprocessor_channels_last(NewPreprocessor({{"layout", "nhwc"}}).get()), 1);
  EXPECT_EQ(endcap_preprocessor_channels_last(nullptr), 0);
}

TEST(CApiPreprocess, ParametersThatCannotBeUsedMakeNoHandle) {
  endcap_preprocessor* made = nullptr;
  const auto refuse = [&](const endcap_parameter& parameter, int32_t device, int32_t threads) {
    made = reinterpret_cast<endcap_preprocessor*>(&made);
    const endcap_status status = endcap_preprocessor_new(&parameter, 1, device, threads, &made);
    EXPECT_EQ(made, nullptr);
    return status;
  };
  EXPECT_TRUE(Refused("'sise' is not a", refuse({"sise", "8"}, ENDCAP_CPU, 1)));
  EXPECT_TRUE(Refused("size", refuse({"size", "many"}, ENDCAP_CPU, 1)));
  EXPECT_TRUE(Refused("parameter 0 has no name", refuse({nullptr, "8"}, ENDCAP_CPU, 1)));
  EXPECT_TRUE(Refused("value of parameter 'size'", refuse({"size", nullptr}, ENDCAP_CPU, 1)));
  EXPECT_TRUE(Refused("threads is -2", refuse({"size", "8"}, ENDCAP_CPU, -2)));
  EXPECT_TRUE(
      Refused(ErrorCode::kUnsupported, "need a GPU", refuse({"jpeg_decoder", "hybrid"}, -1, 1)));
  EXPECT_TRUE(Refused("device is -2", refuse({"size", "8"}, -2, 1)));
  EXPECT_TRUE(
      Refused("parameters is NULL", endcap_preprocessor_new(nullptr, 1, ENDCAP_CPU, 1, &made)));
  EXPECT_TRUE(Refused("made is NULL", endcap_preprocessor_new(nullptr, 0, ENDCAP_CPU, 1, nullptr)));
}

// A batch of two good images that one change makes impossible.
class ImpossibleBatch {
 public:
  ImpossibleBatch() {
    for (size_t i = 0; i < 2; ++i) {
      outputs_[i] = {tensors_[i].data(), tensors_[i].size(), 0, 0, nullptr, &status_[i], 0};
    }
  }
  template <typename Change>
  ::testing::AssertionResult Refuses(const std::string& part, const Change& change) {
    auto images = images_;
    auto outputs = outputs_;
    change(images[1], outputs[1]);
    const auto result = Refused(
        part, endcap_preprocessor_run(handle_.get(), images.data(), outputs.data(), 2, nullptr));
    EXPECT_EQ(status_[0], -1) << "work was begun";
    return result;
  }
  endcap_preprocessor* handle() { return handle_.get(); }
  const std::array<endcap_image, 2>& images() const { return images_; }
  const std::array<endcap_preprocess_output, 2>& outputs() const { return outputs_; }

 private:
  PreprocessorHandle handle_ = NewPreprocessor({{"size", "8"}, {"dtype", "uint8"}});
  Bytes file_ = MakeJpeg(20, 20);
  std::array<endcap_image, 2> images_ = {CImage(file_), CImage(file_)};
  std::array<Bytes, 2> tensors_ = {Bytes(192), Bytes(192)};
  std::array<int32_t, 2> status_ = {-1, -1};
  std::array<endcap_preprocess_output, 2> outputs_{};
};

TEST(CApiPreprocess, ArgumentsThatCannotBeUsedFailTheCallBeforeAnyWork) {
  ImpossibleBatch batch;
  EXPECT_TRUE(
      batch.Refuses("tensor of output 1 is NULL", [](auto&, auto& o) { o.tensor = nullptr; }));
  EXPECT_TRUE(batch.Refuses("output 1 has 191 bytes: uint8 [3, 8, 8] takes 192",
                            [](auto&, auto& o) { o.tensor_bytes = 191; }));
  EXPECT_TRUE(
      batch.Refuses("uint8 [3, 9, 9] takes 243", [](auto&, auto& o) { o.height = o.width = 9; }));
  EXPECT_TRUE(batch.Refuses("output 1: size is -8,8", [](auto&, auto& o) {
    o.height = -8;
    o.width = 8;
  }));
  EXPECT_TRUE(batch.Refuses("output 1: size is 1000000,8", [](auto&, auto& o) {
    o.height = 1000000;
    o.width = 8;
  }));
  EXPECT_TRUE(batch.Refuses("image 1 has format 4", [](auto& i, auto&) { i.format = 4; }));
  EXPECT_TRUE(batch.Refuses("image 1 has format -1", [](auto& i, auto&) { i.format = -1; }));
  EXPECT_TRUE(batch.Refuses("image 1 has no data", [](auto& i, auto&) { i.data = nullptr; }));
  EXPECT_TRUE(batch.Refuses("data of image 1 is NULL: give the pixels of its 2 x 3",
                            [](auto& i, auto&) { i = CImage(ENDCAP_RGB, nullptr, 2, 3, 6); }));
  EXPECT_TRUE(batch.Refuses("image 1 is in GPU memory", [](auto& i, auto&) { i.on_gpu = 1; }));
  const auto& images = batch.images();
  const auto& outputs = batch.outputs();
  endcap_preprocessor* handle = batch.handle();
  EXPECT_TRUE(Refused("preprocessor is NULL",
                      endcap_preprocessor_run(nullptr, images.data(), outputs.data(), 2, nullptr)));
  EXPECT_TRUE(Refused("images is NULL",
                      endcap_preprocessor_run(handle, nullptr, outputs.data(), 2, nullptr)));
  EXPECT_TRUE(Refused("outputs is NULL",
                      endcap_preprocessor_run(handle, images.data(), nullptr, 2, nullptr)));
  EXPECT_TRUE(Refused("count is", endcap_preprocessor_run(handle, images.data(), outputs.data(),
                                                          size_t{1} << 40, nullptr)));
  EXPECT_TRUE(
      Refused("stream", endcap_preprocessor_run(handle, images.data(), outputs.data(), 2, &batch)));
  EXPECT_EQ(endcap_preprocessor_run(handle, images.data(), outputs.data(), 2, nullptr), 0)
      << endcap_last_error();
}

}  // namespace
}  // namespace endcap
