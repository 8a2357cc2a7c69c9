// Regions of an image by the C functions, against Preprocessor.

#include <gtest/gtest.h>

#include "c_api_images.h"

namespace endcap {
namespace {

using namespace endcap::testing;  // NOLINT(google-build-using-namespace): the file's own fixtures

const ParameterList kParameters = {{"size", "24,32"}, {"max_rois", "6"}};

struct RoiResults {
  ImageResults regions;
  int32_t image_status = -1;
  std::string image_message;
  bool operator==(const RoiResults&) const = default;
};

RoiResults RoisByCore(const endcap_image& image, const std::vector<Roi>& rois, const Size& size) {
  const PreprocessParams params = WithSize(ParsePreprocessParams(kParameters), size);
  RoiResults results{ImageResults(rois.size()), -1, {}};
  std::vector<PreprocessOutput> outputs;
  for (size_t i = 0; i < rois.size(); ++i) {
    TensorView view = ImageTensor(params, nullptr);
    results.regions.tensors[i].resize(view.size_bytes());
    view.data = results.regions.tensors[i].data();
    outputs.push_back({view, results.regions.geometry[i].data(), &results.regions.status[i],
                       static_cast<int>(i)});
  }
  const PreprocessInput job{CoreView(image), rois, outputs};
  const auto items = Preprocessor(params, 1).Run({&job, 1});
  for (const ItemStatus& status : items[0].rois) {
    results.regions.messages.push_back(status.message);
  }
  results.image_status = static_cast<int32_t>(items[0].status.code);
  results.image_message = items[0].status.message;
  return results;
}

// A call of endcap_preprocessor_run_rois and its memory.
struct RoiCall {
  std::vector<float> numbers;
  std::vector<endcap_preprocess_output> outputs;
  RoiResults results;

  RoiCall(endcap_preprocessor* handle, const std::vector<Roi>& rois, const Size& size)
      : results{ImageResults(rois.size()), -1, {}} {
    endcap_tensor_spec spec;
    EXPECT_EQ(endcap_preprocessor_tensor(handle, size.height, size.width, &spec), 0);
    ImageResults& regions = results.regions;
    for (size_t i = 0; i < rois.size(); ++i) {
      numbers.insert(numbers.end(), {rois[i].x1, rois[i].y1, rois[i].x2, rois[i].y2});
      regions.tensors[i].resize(static_cast<size_t>(spec.shape[0] * spec.shape[1] * spec.shape[2]) *
                                sizeof(float));
      outputs.push_back({regions.tensors[i].data(), regions.tensors[i].size(), size.height,
                         size.width, regions.geometry[i].data(), &regions.status[i],
                         static_cast<int32_t>(i)});
    }
  }

  endcap_status Run(endcap_preprocessor* handle, const endcap_image& image) {
    return endcap_preprocessor_run_rois(handle, &image, numbers.data(), outputs.data(),
                                        outputs.size(), &results.image_status);
  }
};

RoiResults RoisByC(endcap_preprocessor* handle, const endcap_image& image,
                   const std::vector<Roi>& rois, const Size& size) {
  RoiCall call(handle, rois, size);
  EXPECT_EQ(call.Run(handle, image), 0) << endcap_last_error();
  for (size_t i = 0; i < rois.size(); ++i) {
    call.results.regions.messages.emplace_back(endcap_item_error(i));
  }
  call.results.image_message = endcap_item_error(rois.size());
  return call.results;
}

TEST(CApiRois, AreThoseOfTheCore) {
  const MixedImages mixed;
  const std::vector<Roi> rois = {{3.0F, 5.0F, 20.0F, 18.0F},
                                 {9.0F, 9.0F, 9.0F, 12.0F},  // empty
                                 {0.0F, 0.0F, 25.0F, 20.0F}};
  const PreprocessorHandle handle = NewPreprocessor(kParameters, ENDCAP_CPU, 2);
  for (const Size& size : {Size{}, Size{10, 12}}) {
    for (size_t i = 0; i < mixed.images.size(); ++i) {
      SCOPED_TRACE(i);
      EXPECT_TRUE(RoisByC(handle.get(), mixed.images[i], rois, size) ==
                  RoisByCore(mixed.images[i], rois, size));
      EXPECT_TRUE(RoisByC(handle.get(), mixed.images[i], {}, size) ==
                  RoisByCore(mixed.images[i], {}, size));
    }
  }
  const RoiResults results = RoisByC(handle.get(), mixed.images[0], rois, {});
  EXPECT_EQ(results.regions.status, (std::vector<int32_t>{0, 4, 0}));
  EXPECT_NE(results.regions.messages[1].find("roi index 1 of 3"), std::string::npos);
  EXPECT_EQ(results.image_message, results.regions.messages[1]);
}

TEST(CApiRois, ArgumentsThatCannotBeUsedFailTheCall) {
  const MixedImages mixed;
  const endcap_image& image = mixed.images[0];
  const PreprocessorHandle owner = NewPreprocessor(kParameters);
  endcap_preprocessor* handle = owner.get();
  const std::vector<Roi> rois(2, {0.0F, 0.0F, 20.0F, 20.0F});
  RoiCall call(handle, rois, {});
  const auto run = [&](const endcap_image* of, const float* numbers,
                       const endcap_preprocess_output* outputs, int32_t* status) {
    return endcap_preprocessor_run_rois(handle, of, numbers, outputs, 2, status);
  };
  const float* numbers = call.numbers.data();
  const auto* outputs = call.outputs.data();
  int32_t status = -1;
  EXPECT_TRUE(Refused("image is NULL", run(nullptr, numbers, outputs, &status)));
  EXPECT_TRUE(Refused("rois is NULL", run(&image, nullptr, outputs, &status)));
  EXPECT_TRUE(Refused("outputs is NULL", run(&image, numbers, nullptr, &status)));
  EXPECT_TRUE(Refused("image_status is NULL", run(&image, numbers, outputs, nullptr)));
  EXPECT_TRUE(Refused("preprocessor is NULL",
                      endcap_preprocessor_run_rois(nullptr, &image, numbers, outputs, 2, &status)));
  call.outputs[1].height = 10;
  call.outputs[1].width = 12;
  EXPECT_TRUE(Refused("output 1 is of size 10,12, and output 0 of 24,32", call.Run(handle, image)));
  RoiCall many(handle, std::vector<Roi>(7, rois[0]), {});
  EXPECT_TRUE(Refused("max_rois allows 6", many.Run(handle, image)));
  EXPECT_EQ(many.results.regions.status, std::vector<int32_t>(7, -1));
}

TEST(CApiRois, HowManyAreAllowedIsToldBeforeThereIsRoomForThem) {
  const PreprocessorHandle handle = NewPreprocessor(kParameters);
  EXPECT_EQ(endcap_preprocessor_check_rois(handle.get(), 0), 0);
  EXPECT_EQ(endcap_preprocessor_check_rois(handle.get(), 6), 0);
  EXPECT_TRUE(Refused("came with 7 rois; max_rois allows 6",
                      endcap_preprocessor_check_rois(handle.get(), 7)));
  EXPECT_TRUE(
      Refused("max_rois allows 6", endcap_preprocessor_check_rois(handle.get(), size_t{1} << 63)));
  EXPECT_TRUE(Refused("preprocessor is NULL", endcap_preprocessor_check_rois(nullptr, 1)));
}

TEST(CApiRois, HowManyBytesAreAllowedDependsOnTheSize) {
  // 3 x 24 x 32 float32 take 9216 bytes, 3 x 10 x 12 take 1440.
  const PreprocessorHandle owner =
      NewPreprocessor({{"size", "24,32"}, {"max_rois", "6"}, {"max_roi_bytes", "9216"}});
  endcap_preprocessor* handle = owner.get();
  EXPECT_EQ(endcap_preprocessor_check_roi_tensors(handle, 1, 0, 0), 0);
  EXPECT_TRUE(Refused("the tensors of 2 rois take 18432 bytes; max_roi_bytes allows 9216",
                      endcap_preprocessor_check_roi_tensors(handle, 2, 0, 0)));
  EXPECT_EQ(endcap_preprocessor_check_roi_tensors(handle, 6, 10, 12), 0);
  EXPECT_TRUE(
      Refused("max_rois allows 6", endcap_preprocessor_check_roi_tensors(handle, 7, 10, 12)));
  EXPECT_TRUE(Refused("size", endcap_preprocessor_check_roi_tensors(handle, 1, -1, 12)));
  EXPECT_TRUE(
      Refused("preprocessor is NULL", endcap_preprocessor_check_roi_tensors(nullptr, 1, 0, 0)));
  EXPECT_EQ(endcap_preprocessor_check_rois(handle, 2), 0);
  const MixedImages mixed;
  const std::vector<Roi> rois(2, {0.0F, 0.0F, 20.0F, 20.0F});
  RoiCall call(handle, rois, {});
  EXPECT_TRUE(Refused("max_roi_bytes allows 9216", call.Run(handle, mixed.images[0])));
  EXPECT_EQ(call.results.regions.status, std::vector<int32_t>(2, -1));
  RoiCall smaller(handle, rois, Size{10, 12});
  EXPECT_EQ(smaller.Run(handle, mixed.images[0]), 0);
}

}  // namespace
}  // namespace endcap
