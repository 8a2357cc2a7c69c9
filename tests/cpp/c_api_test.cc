// The C functions against the classes behind them: one case of each function, its errors, and who
// hears of which error.

#include "endcap/c_api.h"

#include <gtest/gtest.h>

#include <barrier>
#include <thread>

#include "c_api_client.h"
#include "c_api_harness.h"
#include "endcap/nms.h"

namespace endcap {
namespace {

using namespace endcap::testing;  // NOLINT(google-build-using-namespace): the file's own fixtures

TEST(CApi, AClientInC) {
  const char* problem = RunCClient();
  EXPECT_EQ(problem, nullptr) << problem;
}

TEST(CApi, TellsItsVersionAndTheNamesOfStatuses) {
  EXPECT_EQ(endcap_c_abi(), ENDCAP_C_ABI);
  EXPECT_STREQ(endcap_version(), PROJECT_VERSION);
  EXPECT_STREQ(endcap_status_name(0), "ok");
  EXPECT_STREQ(endcap_status_name(1), "corrupt_image");
  EXPECT_STREQ(endcap_status_name(7), "internal");
  EXPECT_STREQ(endcap_status_name(8), "unknown");
  EXPECT_STREQ(endcap_status_name(-1), "unknown");
}

void ExpectTable(const std::vector<ParameterInfo>& expected, const endcap_parameter_info* rows,
                 size_t count) {
  ASSERT_EQ(count, expected.size());
  for (size_t i = 0; i < count; ++i) {
    EXPECT_EQ(rows[i].name, expected[i].name);
    EXPECT_EQ(rows[i].meaning, expected[i].meaning);
    EXPECT_EQ(rows[i].allowed, expected[i].allowed);
    EXPECT_EQ(rows[i].value, expected[i].value);
  }
}

TEST(CApi, TheTablesAreTheCores) {
  const endcap_parameter_info* rows = nullptr;
  size_t count = 0;
  ASSERT_EQ(endcap_preprocess_parameters(&rows, &count), 0);
  ExpectTable(DescribePreprocessParams({}), rows, count);
  ASSERT_EQ(endcap_postprocess_parameters(&rows, &count), 0);
  ExpectTable(DescribePostprocessParams({}), rows, count);
  EXPECT_TRUE(Refused("rows is NULL", endcap_preprocess_parameters(nullptr, &count)));
  EXPECT_TRUE(Refused("count is NULL", endcap_postprocess_parameters(&rows, nullptr)));
}

TEST(CApi, ALastErrorStaysUntilTheNextAndAnItemsUntilTheNextRun) {
  const MixedImages mixed;
  const PreprocessorHandle handle = NewPreprocessor({{"size", "8"}});
  endcap_tensor_spec spec;
  ASSERT_TRUE(Refused("size is 0,7", endcap_preprocessor_tensor(handle.get(), 0, 7, &spec)));
  ASSERT_EQ(endcap_preprocessor_tensor(handle.get(), 7, 7, &spec), 0);
  EXPECT_STREQ(endcap_last_error(), "size is 0,7: give each from 1 to 16384");
  ByC(handle.get(), {mixed.images[2]});
  const std::string said = endcap_item_error(0);
  EXPECT_NE(said, "");
  ASSERT_EQ(endcap_preprocessor_tensor(handle.get(), 7, 7, &spec), 0);
  EXPECT_EQ(endcap_item_error(0), said);
  EXPECT_STREQ(endcap_item_error(1), "");
  ASSERT_NE(endcap_preprocessor_run(handle.get(), nullptr, nullptr, 1, nullptr), 0);
  EXPECT_STREQ(endcap_item_error(0), "") << "a run that failed has no items";
}

// Two threads on one handle: each has its own images, sizes and errors, all at the same time.
TEST(CApi, EveryThreadHasItsOwnErrors) {
  const MixedImages mixed;
  const ParameterList list = {{"size", "24,32"}};
  const PreprocessorHandle handle = NewPreprocessor(list, ENDCAP_CPU, 2);
  std::barrier together(2);
  const auto work = [&](int number, size_t bad) {
    const std::vector<endcap_image> images = {mixed.images[0], mixed.images[bad]};
    const std::vector<Size> sizes = {{}, {20 + number, 30}};
    const ImageResults expected = ByCore(list, images, sizes);
    for (int round = 0; round < 20; ++round) {
      endcap_tensor_spec spec;
      together.arrive_and_wait();
      endcap_preprocessor_tensor(handle.get(), -number, 7, &spec);
      EXPECT_TRUE(ByC(handle.get(), images, sizes) == expected);
      together.arrive_and_wait();  // the other thread's calls lie between ours and the checks
      EXPECT_EQ(endcap_last_error(),
                "size is " + std::to_string(-number) + ",7: give each from 1 to 16384");
      EXPECT_EQ(endcap_item_error(1), expected.messages[1]);
    }
  };
  std::thread other([&] { work(1, 2); });
  work(2, 9);
  other.join();
}

TEST(CApi, AThreadThatHadNoErrorHasNoMessage) {
  std::thread([] {
    EXPECT_STREQ(endcap_last_error(), "");
    EXPECT_STREQ(endcap_item_error(0), "");
  }).join();
}

// More sizes than a handle keeps, some of them twice, and that of the parameters by both names.
TEST(CApiPreprocess, ABatchOfManySizesIsThatOfTheCore) {
  const MixedImages mixed;
  const ParameterList list = {{"size", "24,32"}, {"dtype", "float16"}, {"layout", "nhwc"}};
  std::vector<endcap_image> images;
  std::vector<Size> sizes;
  for (size_t i = 0; i < 40; ++i) {
    images.push_back(mixed.images[i % mixed.images.size()]);
    const int side = 8 + 2 * static_cast<int>(i % 23);
    sizes.push_back({side, side + 3});
  }
  sizes[3] = {24, 32};
  sizes[4] = {};
  const ImageResults expected = ByCore(list, images, sizes);
  for (const size_t bad : {2, 8, 9}) EXPECT_NE(expected.messages[bad], "");
  EXPECT_EQ(expected.messages[0], "");
  for (const int32_t threads : {1, 3}) {
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

TEST(CApiPreprocess, TellsTensorPolicyAndLayout) {
  const PreprocessorHandle handle = NewPreprocessor(
      {{"size", "24,32"}, {"layout", "nhwc"}, {"dtype", "float16"}, {"on_error", "blank"}});
  endcap_tensor_spec spec;
  ASSERT_EQ(endcap_preprocessor_tensor(handle.get(), 0, 0, &spec), 0);
  EXPECT_STREQ(spec.name, "images");
  EXPECT_EQ(spec.dtype, ENDCAP_FLOAT16);
  EXPECT_EQ(spec.rank, 3);
  EXPECT_EQ(std::vector<int64_t>(spec.shape, spec.shape + 3), (std::vector<int64_t>{24, 32, 3}));
  ASSERT_EQ(endcap_preprocessor_tensor(handle.get(), 5, 7, &spec), 0);
  EXPECT_EQ(std::vector<int64_t>(spec.shape, spec.shape + 3), (std::vector<int64_t>{5, 7, 3}));
  EXPECT_TRUE(Refused("size is -1,-1", endcap_preprocessor_tensor(handle.get(), -1, -1, &spec)));
  EXPECT_TRUE(Refused("spec is NULL", endcap_preprocessor_tensor(handle.get(), 0, 0, nullptr)));
  EXPECT_TRUE(Refused("preprocessor is NULL", endcap_preprocessor_tensor(nullptr, 0, 0, &spec)));
  const PreprocessorHandle other = NewPreprocessor({});
  for (const auto told : {endcap_preprocessor_blanks, endcap_preprocessor_channels_last}) {
    EXPECT_EQ(told(handle.get()), 1);
    EXPECT_EQ(told(other.get()), 0);
    EXPECT_EQ(told(nullptr), 0);
  }
}

template <typename Handle, typename Make>
void ExpectNoHandle(const Make& make, const std::string& part, const endcap_parameter& parameter,
                    int32_t device = ENDCAP_CPU, int32_t threads = 1) {
  auto* made = reinterpret_cast<Handle*>(&device);
  EXPECT_TRUE(Refused(part, make(&parameter, 1, device, threads, &made)));
  EXPECT_EQ(made, nullptr);
}

TEST(CApi, ParametersThatCannotBeUsedMakeNoHandle) {
  const auto expect = [](const auto&... arguments) {
    ExpectNoHandle<endcap_preprocessor>(endcap_preprocessor_new, arguments...);
  };
  expect("'sise' is not a", endcap_parameter{"sise", "8"});
  expect("parameter 0 has no name", endcap_parameter{nullptr, "8"});
  expect("value of parameter 'size'", endcap_parameter{"size", nullptr});
  expect("threads is -2", endcap_parameter{"size", "8"}, ENDCAP_CPU, -2);
  expect("device is -2", endcap_parameter{"size", "8"}, -2);
  ExpectNoHandle<endcap_postprocessor>(endcap_postprocessor_new, "head",
                                       endcap_parameter{"head", "yolov99"});
  ExpectNoHandle<endcap_postprocessor>(endcap_postprocessor_new, "device is -2",
                                       endcap_parameter{"head", "yolov8"}, -2);
  endcap_preprocessor* made = nullptr;
  EXPECT_TRUE(
      Refused("parameters is NULL", endcap_preprocessor_new(nullptr, 1, ENDCAP_CPU, 1, &made)));
  EXPECT_TRUE(Refused("made is NULL", endcap_preprocessor_new(nullptr, 0, ENDCAP_CPU, 1, nullptr)));
  EXPECT_TRUE(
      Refused("made is NULL", endcap_postprocessor_new(nullptr, 0, ENDCAP_CPU, 1, nullptr)));
}

TEST(CApiPreprocess, ArgumentsThatCannotBeUsedFailTheCallBeforeAnyWork) {
  const PreprocessorHandle owner = NewPreprocessor({{"size", "8"}, {"dtype", "uint8"}});
  endcap_preprocessor* handle = owner.get();
  const Bytes file = MakeJpeg(20, 20);
  ImageCall call(handle, {{}, {}});
  const std::array images = {CImage(file), CImage(file)};
  const auto refuses = [&](const std::string& part, const auto& change) {
    auto changed_images = images;
    auto outputs = call.outputs;
    change(changed_images[1], outputs[1]);
    EXPECT_TRUE(Refused(
        part, endcap_preprocessor_run(handle, changed_images.data(), outputs.data(), 2, nullptr)));
    EXPECT_EQ(call.results.status[0], -1) << "work was begun";
  };
  refuses("tensor of output 1 is NULL", [](auto&, auto& o) { o.tensor = nullptr; });
  refuses("output 1 has 191 bytes: uint8 [3, 8, 8] takes 192",
          [](auto&, auto& o) { o.tensor_bytes = 191; });
  refuses("uint8 [3, 9, 9] takes 243", [](auto&, auto& o) { o.height = o.width = 9; });
  refuses("output 1: size is -8,-8", [](auto&, auto& o) { o.height = o.width = -8; });
  refuses("image 1 has format 4", [](auto& i, auto&) { i.format = 4; });
  refuses("image 1 has format -1", [](auto& i, auto&) { i.format = -1; });
  refuses("image 1 has no data", [](auto& i, auto&) { i.data = nullptr; });
  refuses("data of image 1 is NULL: give the pixels of its 2 x 3",
          [](auto& i, auto&) { i = CImage(ENDCAP_RGB, nullptr, 2, 3, 6); });
  refuses("image 1 is in GPU memory", [](auto& i, auto&) { i.on_gpu = 1; });
  const auto run = [&](endcap_preprocessor* by, const endcap_image* of,
                       const endcap_preprocess_output* to, size_t count,
                       void* stream) { return endcap_preprocessor_run(by, of, to, count, stream); };
  const auto* outputs = call.outputs.data();
  EXPECT_TRUE(Refused("preprocessor is NULL", run(nullptr, images.data(), outputs, 2, nullptr)));
  EXPECT_TRUE(Refused("images is NULL", run(handle, nullptr, outputs, 2, nullptr)));
  EXPECT_TRUE(Refused("outputs is NULL", run(handle, images.data(), nullptr, 2, nullptr)));
  EXPECT_TRUE(Refused("count is", run(handle, images.data(), outputs, size_t{1} << 40, nullptr)));
  EXPECT_TRUE(Refused("stream", run(handle, images.data(), outputs, 2, &call)));
  EXPECT_EQ(run(handle, images.data(), outputs, 2, nullptr), 0) << endcap_last_error();
}

// 3 x 24 x 32 float32 take 9216 bytes, 3 x 10 x 12 take 1440.
const ParameterList kRoiParameters = {
    {"size", "24,32"}, {"max_rois", "6"}, {"max_roi_bytes", "27648"}};

TEST(CApiRois, AreThoseOfTheCore) {
  const MixedImages mixed;
  const std::vector<Roi> rois = {{3.0F, 5.0F, 20.0F, 18.0F},
                                 {9.0F, 9.0F, 9.0F, 12.0F},  // empty
                                 {0.0F, 0.0F, 25.0F, 20.0F}};
  const PreprocessorHandle handle = NewPreprocessor(kRoiParameters, ENDCAP_CPU, 2);
  for (const Size& size : {Size{}, Size{10, 12}}) {
    for (const endcap_image& image : mixed.images) {
      ImageCall call(handle.get(), {size, size, size});
      int32_t status = -1;
      const endcap_status returned = endcap_preprocessor_run_rois(handle.get(), &image, &rois[0].x1,
                                                                  call.outputs.data(), 3, &status);
      const std::string image_message = endcap_item_error(3);
      const ImageResults& results = call.Fetch(returned);
      const ImageResults expected =
          ByCore(ParsePreprocessParams(kRoiParameters), image, size, rois);
      EXPECT_EQ(results.status, expected.status);
      EXPECT_EQ(results.messages, expected.messages);
      EXPECT_EQ(results.geometry, expected.geometry);
      EXPECT_EQ(status, std::ranges::max(expected.status));
      EXPECT_EQ(image_message, expected.messages[1]);  // the first that is bad
      for (const size_t good : {0, 2}) {
        EXPECT_TRUE(expected.status[good] != 0 || results.tensors[good] == expected.tensors[good]);
      }
    }
  }
}

TEST(CApiRois, ArgumentsThatCannotBeUsedFailTheCall) {
  const MixedImages mixed;
  const endcap_image* image = mixed.images.data();
  const PreprocessorHandle owner = NewPreprocessor(kRoiParameters);
  endcap_preprocessor* handle = owner.get();
  const std::vector<float> numbers(4 * 7, 20.0F);
  ImageCall call(handle, std::vector<Size>(7));
  int32_t status = -1;
  const auto run = [&](const endcap_image* of, const float* rois,
                       const endcap_preprocess_output* outputs, size_t count, int32_t* to) {
    return endcap_preprocessor_run_rois(handle, of, rois, outputs, count, to);
  };
  const auto* outputs = call.outputs.data();
  const float* rois = numbers.data();
  EXPECT_TRUE(Refused("image is NULL", run(nullptr, rois, outputs, 2, &status)));
  EXPECT_TRUE(Refused("rois is NULL", run(image, nullptr, outputs, 2, &status)));
  EXPECT_TRUE(Refused("outputs is NULL", run(image, rois, nullptr, 2, &status)));
  EXPECT_TRUE(Refused("image_status is NULL", run(image, rois, outputs, 2, nullptr)));
  EXPECT_TRUE(Refused("max_rois allows 6", run(image, rois, outputs, 7, &status)));
  EXPECT_TRUE(Refused("max_roi_bytes allows 27648", run(image, rois, outputs, 4, &status)));
  call.outputs[1].height = 10;
  call.outputs[1].width = 12;
  EXPECT_TRUE(Refused("output 1 is of size 10,12, and output 0 of 24,32",
                      run(image, rois, outputs, 2, &status)));
  EXPECT_EQ(call.results.status, std::vector<int32_t>(7, -1));
}

TEST(CApiRois, HowManyAreAllowedIsToldBeforeThereIsRoomForThem) {
  const PreprocessorHandle owner = NewPreprocessor(kRoiParameters);
  endcap_preprocessor* handle = owner.get();
  EXPECT_EQ(endcap_preprocessor_check_rois(handle, 6), 0);
  EXPECT_TRUE(
      Refused("came with 7 rois; max_rois allows 6", endcap_preprocessor_check_rois(handle, 7)));
  EXPECT_TRUE(
      Refused("max_rois allows 6", endcap_preprocessor_check_rois(handle, size_t{1} << 63)));
  EXPECT_TRUE(Refused("preprocessor is NULL", endcap_preprocessor_check_rois(nullptr, 1)));
  EXPECT_EQ(endcap_preprocessor_check_roi_tensors(handle, 3, 0, 0), 0);
  EXPECT_TRUE(Refused("the tensors of 4 rois take 36864 bytes; max_roi_bytes allows 27648",
                      endcap_preprocessor_check_roi_tensors(handle, 4, 0, 0)));
  EXPECT_EQ(endcap_preprocessor_check_roi_tensors(handle, 6, 10, 12), 0);
  EXPECT_TRUE(Refused("size", endcap_preprocessor_check_roi_tensors(handle, 1, -1, 12)));
  EXPECT_TRUE(
      Refused("preprocessor is NULL", endcap_preprocessor_check_roi_tensors(nullptr, 1, 0, 0)));
}

void ExpectRows(const std::vector<TensorSpec>& expected, const endcap_tensor_spec* rows,
                size_t count) {
  ASSERT_EQ(count, expected.size());
  for (size_t i = 0; i < count; ++i) {
    EXPECT_EQ(rows[i].name, expected[i].name);
    EXPECT_EQ(rows[i].dtype, static_cast<int32_t>(expected[i].dtype));
    ASSERT_EQ(rows[i].rank, expected[i].rank);
    EXPECT_TRUE(std::equal(rows[i].shape, rows[i].shape + rows[i].rank, expected[i].shape.begin()));
  }
}

TEST(CApiPostprocess, TellsTheHeadAndTheOutputs) {
  for (const char* family : {"yolov8", "efficient_nms", "yolov8_seg"}) {
    const ParameterList list = {{"head", family}};
    const PostprocessParams params = ParsePostprocessParams(list);
    const PostprocessorHandle handle = NewPostprocessor(list);
    const endcap_tensor_spec* rows = nullptr;
    size_t count = 0;
    ASSERT_EQ(endcap_postprocessor_inputs(handle.get(), &rows, &count), 0);
    ExpectRows(HeadInputs(params.head), rows, count);
    ASSERT_EQ(endcap_postprocessor_outputs(handle.get(), &rows, &count), 0);
    ExpectRows(PostprocessOutputs(params), rows, count);
    EXPECT_TRUE(
        Refused("rows is NULL", endcap_postprocessor_inputs(handle.get(), nullptr, &count)));
  }
  size_t count = 0;
  EXPECT_TRUE(
      Refused("postprocessor is NULL", endcap_postprocessor_outputs(nullptr, nullptr, &count)));
}

TEST(CApiPostprocess, ABatchIsThatOfTheCoreAndAlwaysWaits) {
  const std::vector<HeadImage> images = MixedHeads();
  const DetectionResults expected = DetectionsByCore(images);
  EXPECT_GT(expected.items[4][0], 0);
  EXPECT_NE(expected.messages[2], "");
  EXPECT_NE(expected.messages[3], "");
  for (const int32_t wait : {0, 1}) {
    const PostprocessorHandle handle = NewPostprocessor(kYolov8, ENDCAP_CPU, 1 + wait);
    DetectionCall call(handle.get(), images);
    call.items[1].head = nullptr;  // which an item with a status does not need
    ASSERT_EQ(call.Run(handle.get(), nullptr, wait), 0) << endcap_last_error();
    EXPECT_TRUE(call.Read() == expected);
  }
}

TEST(CApiPostprocess, OutputsThatNobodyWantsAreSkipped) {
  const std::vector<HeadImage> images = {MixedHeads()[4]};
  const PostprocessorHandle handle = NewPostprocessor(kYolov8);
  for (size_t skipped = 0; skipped < 6; ++skipped) {
    DetectionCall call(handle.get(), images);
    call.outputs[0][skipped] = {};
    ASSERT_EQ(call.Run(handle.get()), 0) << endcap_last_error();
    DetectionResults expected = DetectionsByCore(images);
    std::ranges::fill(expected.tensors[0][skipped], kUntouched);
    EXPECT_TRUE(call.Read() == expected);
  }
}

TEST(CApiPostprocess, ArgumentsThatCannotBeUsedFailTheCallBeforeAnyWork) {
  const PostprocessorHandle handle = NewPostprocessor(kYolov8);
  const std::vector<HeadImage> images = {MixedHeads()[0], MixedHeads()[0]};
  const auto refuses = [&](const std::string& part, const auto& change) {
    DetectionCall call(handle.get(), images);
    change(call);
    EXPECT_TRUE(Refused(part, call.Run(handle.get())));
    EXPECT_EQ(call.Output(0, 0).front(), kUntouched) << "work was begun";
  };
  refuses("item 1 has no head", [](auto& c) { c.items[1].head = nullptr; });
  refuses("item 1 has no outputs", [](auto& c) { c.items[1].outputs = nullptr; });
  refuses("geometry of item 1", [](auto& c) { c.items[1].geometry_on_gpu = 1; });
  refuses("head of item 1 has dtype 6", [](auto& c) { c.heads[1].dtype = 6; });
  refuses("head of item 1 has rank 5", [](auto& c) { c.heads[1].rank = 5; });
  refuses("head of item 1 has rank -1", [](auto& c) { c.heads[1].rank = -1; });
  refuses("a side of -3: give each from 0", [](auto& c) { c.heads[1].shape[0] = -3; });
  // The product of the sides is 2 to the 80th, which is 0 in 64 bits.
  refuses("no array is that large",
          [](auto& c) { c.heads[1].shape[0] = c.heads[1].shape[1] = int64_t{1} << 40; });
  refuses("output detection_boxes of item 1", [](auto& c) { c.outputs[1][1].shape[0] = 9; });
  refuses("output detection_boxes of item 1", [](auto& c) { c.outputs[1][1].on_gpu = 1; });
  EXPECT_TRUE(
      Refused("postprocessor is NULL", endcap_postprocessor_run(nullptr, nullptr, 0, nullptr, 1)));
  EXPECT_TRUE(
      Refused("items is NULL", endcap_postprocessor_run(handle.get(), nullptr, 1, nullptr, 1)));
  int stream = 0;
  EXPECT_TRUE(Refused("stream", endcap_postprocessor_run(handle.get(), nullptr, 0, &stream, 1)));
}

TEST(CApiNms, KeepsWhatTheCoreKeepsOrFails) {
  const std::vector<float> boxes = {0, 0, 10, 10, 1, 0, 11, 10, 50, 50, 60, 60, 1, 0, 11, 10};
  std::vector<float> scores = {0.5F, 0.9F, 0.7F, 0.6F};
  const std::vector<int32_t> ids = {0, 0, 1, 1};
  std::array<int64_t, 4> kept{};
  int64_t count = -1;
  const auto nms = [&](const float* of, const float* by, size_t number, double threshold,
                       int64_t most, int64_t* into, int64_t* counted,
                       const int32_t* classes = nullptr) {
    return endcap_nms(of, by, classes, number, threshold, most, into, counted);
  };
  for (const int64_t most : {-1, 0, 1}) {
    for (const bool by_class : {false, true}) {
      const auto expected = Nms(boxes, scores, std::span(ids).first(by_class ? 4 : 0), {0.3, most});
      ASSERT_EQ(nms(boxes.data(), scores.data(), 4, 0.3, most, kept.data(), &count,
                    by_class ? ids.data() : nullptr),
                0)
          << endcap_last_error();
      EXPECT_EQ(std::vector<int64_t>(kept.begin(), kept.begin() + count), expected);
    }
  }
  EXPECT_EQ(nms(nullptr, nullptr, 0, 0.5, -1, nullptr, &count), 0);
  EXPECT_EQ(count, 0);
  const float* b = boxes.data();
  const float* s = scores.data();
  int64_t* to = kept.data();
  EXPECT_TRUE(Refused("boxes is NULL", nms(nullptr, s, 4, 0.5, -1, to, &count)));
  EXPECT_TRUE(Refused("scores is NULL", nms(b, nullptr, 4, 0.5, -1, to, &count)));
  EXPECT_TRUE(Refused("kept is NULL", nms(b, s, 4, 0.5, -1, nullptr, &count)));
  EXPECT_TRUE(Refused("kept_count is NULL", nms(b, s, 4, 0.5, -1, to, nullptr)));
  EXPECT_TRUE(Refused("count is", nms(b, s, size_t{1} << 33, 0.5, -1, to, &count)));
  EXPECT_TRUE(Refused("iou_threshold is 1.5", nms(b, s, 4, 1.5, -1, to, &count)));
  EXPECT_TRUE(Refused("max_detections is -2: give how many", nms(b, s, 4, 0.5, -2, to, &count)));
  scores[1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(Refused("score 1 is NaN", nms(b, s, 4, 0.5, -1, to, &count)));
  EXPECT_EQ(count, 0);
}

}  // namespace
}  // namespace endcap
