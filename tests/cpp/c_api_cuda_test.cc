// Handles of a GPU, on the library built for the host: the same results as handles of the CPU.

#include <gtest/gtest.h>

#include <cstdlib>

#include "c_api_harness.h"

namespace endcap {
namespace {

using namespace endcap::testing;  // NOLINT(google-build-using-namespace): the file's own fixtures

// Before the library is looked for, which happens once a process.
const bool kLibraryIsNamed = setenv("ENDCAP_CUDA_LIBRARY", EMULATED_CUDA_LIBRARY, 1) == 0;

class CApiCuda : public ::testing::Test {
 protected:
  const std::shared_ptr<void> stream_ = NewCudaStream(0);
  const CudaTarget target_{0, stream_.get()};
};

TEST_F(CApiCuda, ABatchOfManySizesIsThatOfTheCpu) {
  const MixedImages mixed;
  const ParameterList list = {{"size", "24,32"}};
  std::vector<endcap_image> images = mixed.images;
  std::vector<Size> sizes(images.size());
  for (int side = 8; side < 32; side += 2) {  // more than a handle keeps
    images.push_back(mixed.images[static_cast<size_t>(side) % mixed.images.size()]);
    sizes.push_back({side, side + 1});
  }
  const PreprocessorHandle handle = NewPreprocessor(list, /*device=*/0, /*threads=*/2);
  const ImageResults expected = ByCore(list, images, sizes);
  EXPECT_TRUE(ByC(handle.get(), images, sizes, &target_) == expected);
  EXPECT_TRUE(ByC(handle.get(), images, sizes, &target_) == expected);

  Memory pixels(mixed.pixels, &target_);
  endcap_image on_gpu = mixed.images[4];
  on_gpu.data = static_cast<const uint8_t*>(pixels.data());
  on_gpu.on_gpu = 1;
  EXPECT_TRUE(ByC(handle.get(), {on_gpu}, {}, &target_) == ByCore(list, {mixed.images[4]}));
}

TEST_F(CApiCuda, RegionsAreThoseOfTheCpu) {
  const MixedImages mixed;
  const ParameterList list = {{"size", "24,32"}, {"dtype", "uint8"}};
  const std::vector<Roi> rois = {{3.0F, 5.0F, 40.0F, 30.0F}, {0.0F, 0.0F, 20.5F, 17.0F}};
  const PreprocessorHandle handle = NewPreprocessor(list, 0);
  ImageCall call(handle.get(), {{}, {}}, &target_);
  int32_t status = -1;
  const ImageResults& results = call.Fetch(
      endcap_preprocessor_run_rois_on_stream(handle.get(), mixed.images.data(), &rois[0].x1,
                                             call.outputs.data(), 2, &status, stream_.get()));
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(results == ByCore(ParsePreprocessParams(list), mixed.images[0], {}, rois));
}

TEST_F(CApiCuda, RefusesWhatAGpuDoesNotDo) {
  const MixedImages mixed;
  const PreprocessorHandle handle = NewPreprocessor({{"size", "8"}}, 0);
  const ImageCall call(handle.get(), {{}});
  endcap_image file = mixed.images[0];
  file.on_gpu = 1;
  EXPECT_TRUE(
      Refused("give encoded bytes in CPU memory",
              endcap_preprocessor_run(handle.get(), &file, call.outputs.data(), 1, nullptr)));
  endcap_preprocessor* made = nullptr;
  EXPECT_TRUE(Refused(ErrorCode::kCuda, "99", endcap_preprocessor_new(nullptr, 0, 99, 1, &made)));
}

TEST_F(CApiCuda, DetectionsAreThoseOfTheCpu) {
  std::vector<HeadImage> images = MixedHeads();
  images.erase(images.begin() + 3);  // wrong shapes fail the call on a GPU
  const DetectionResults expected = DetectionsByCore(images);
  const PostprocessorHandle handle = NewPostprocessor(kYolov8, 0);
  DetectionCall waits(handle.get(), images, &target_);
  ASSERT_EQ(waits.Run(handle.get(), stream_.get(), /*wait=*/1), 0) << endcap_last_error();
  EXPECT_TRUE(waits.Read() == expected);
  DetectionCall goes(handle.get(), images, &target_);
  ASSERT_EQ(goes.Run(handle.get(), stream_.get(), /*wait=*/0), 0) << endcap_last_error();
  EXPECT_EQ(goes.Read().tensors, expected.tensors);
  EXPECT_EQ(goes.items[0].num_detections, -7) << "written without waiting";
}

TEST_F(CApiCuda, RefusesHeadsAndOutputsThatDoNotFit) {
  const std::vector<HeadImage> images = {MixedHeads()[0], MixedHeads()[3]};
  const PostprocessorHandle handle = NewPostprocessor(kYolov8, 0);
  DetectionCall on_host(handle.get(), images);
  EXPECT_TRUE(Refused("memory of the GPU that runs this", on_host.Run(handle.get())));
  DetectionCall on_gpu(handle.get(), images, &target_);
  EXPECT_TRUE(Refused("head has shape", on_gpu.Run(handle.get())));
}

TEST_F(CApiCuda, NmsKeepsWhatTheCpuKeeps) {
  const std::array<float, 12> boxes = {0, 0, 10, 10, 1, 0, 11, 10, 50, 50, 60, 60};
  const std::array<float, 3> scores = {0.5F, 0.9F, 0.7F};
  const auto upload = [&](const auto& values) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
    return Memory(Bytes(bytes, bytes + sizeof(values)), &target_);
  };
  Memory on_gpu[] = {upload(boxes), upload(scores), upload(std::array<int64_t, 4>{})};
  auto* kept = static_cast<int64_t*>(on_gpu[2].data());
  const auto nms = [&](size_t count, double threshold, int64_t most = -1) {
    return endcap_nms_cuda(static_cast<float*>(on_gpu[0].data()),
                           static_cast<float*>(on_gpu[1].data()), nullptr, count, threshold, most,
                           0, stream_.get(), kept, kept + 3);
  };
  ASSERT_EQ(nms(3, 0.5), 0) << endcap_last_error();
  on_gpu[2].Fetch();
  std::array<int64_t, 4> read{};
  std::memcpy(read.data(), on_gpu[2].bytes.data(), sizeof(read));
  EXPECT_EQ(read, (std::array<int64_t, 4>{1, 2, 0, 2}));
  EXPECT_TRUE(Refused("iou_threshold is -1", nms(3, -1.0)));
  EXPECT_TRUE(Refused("max_detections is -2: give how many", nms(3, 0.5, -2)));
  EXPECT_TRUE(Refused("count is", nms(size_t{1} << 40, 0.5)));
}

}  // namespace
}  // namespace endcap
