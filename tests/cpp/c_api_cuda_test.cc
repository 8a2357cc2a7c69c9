// Handles of a GPU, on the library built for the host: the same results as handles of the CPU.

#include <gtest/gtest.h>

#include <cstdlib>

#include "c_api_detections.h"
#include "c_api_images.h"
#include "endcap/cuda.h"

namespace endcap {
namespace {

using namespace endcap::testing;  // NOLINT(google-build-using-namespace): the file's own fixtures

// Before the library is looked for, which happens once a process.
const bool kLibraryIsNamed = setenv("ENDCAP_CUDA_LIBRARY", EMULATED_CUDA_LIBRARY, 1) == 0;

std::shared_ptr<void> Upload(const void* bytes, size_t size, const CudaTarget& target) {
  std::shared_ptr<void> memory = AllocateCuda(size, target);
  CopyCuda(memory.get(), bytes, size, target);
  return memory;
}

ImageResults ByGpu(endcap_preprocessor* handle, const std::vector<endcap_image>& images,
                   const std::vector<Size>& sizes, const CudaTarget& target) {
  ImageResults results(images.size());
  std::vector<std::shared_ptr<void>> memory;
  std::vector<endcap_preprocess_output> outputs;
  for (size_t i = 0; i < images.size(); ++i) {
    endcap_tensor_spec spec;
    EXPECT_EQ(endcap_preprocessor_tensor(handle, sizes[i].height, sizes[i].width, &spec), 0);
    results.tensors[i].resize(static_cast<size_t>(spec.shape[0] * spec.shape[1] * spec.shape[2]) *
                              sizeof(float));
    memory.push_back(AllocateCuda(results.tensors[i].size(), target));
    outputs.push_back({memory[i].get(), results.tensors[i].size(), sizes[i].height, sizes[i].width,
                       results.geometry[i].data(), &results.status[i], static_cast<int32_t>(i)});
  }
  EXPECT_EQ(
      endcap_preprocessor_run(handle, images.data(), outputs.data(), images.size(), target.stream),
      0)
      << endcap_last_error();
  for (size_t i = 0; i < images.size(); ++i) {
    results.messages.emplace_back(endcap_item_error(i));
    CopyCuda(results.tensors[i].data(), memory[i].get(), results.tensors[i].size(), target);
  }
  SynchronizeCuda(target);
  return results;
}

TEST(CApiCuda, ABatchOfManySizesIsThatOfTheCpu) {
  const MixedImages mixed;
  const ParameterList list = {{"size", "24,32"}};
  std::vector<endcap_image> images = mixed.images;
  std::vector<Size> sizes(images.size());
  for (int side = 8; side < 32; side += 2) {  // more than a handle keeps
    images.push_back(mixed.images[static_cast<size_t>(side) % mixed.images.size()]);
    sizes.push_back({side, side + 1});
  }
  const auto stream = NewCudaStream(0);
  const CudaTarget target{0, stream.get()};
  const PreprocessorHandle handle = NewPreprocessor(list, /*device=*/0, /*threads=*/2);
  const ImageResults expected = ByCore(ParsePreprocessParams(list), images, sizes);
  EXPECT_TRUE(ByGpu(handle.get(), images, sizes, target) == expected);
  EXPECT_TRUE(ByGpu(handle.get(), images, sizes, target) == expected);

  // Pixels that lie on the GPU.
  const auto pixels = Upload(mixed.pixels.data(), mixed.pixels.size(), target);
  endcap_image on_gpu = mixed.images[4];
  on_gpu.data = static_cast<const uint8_t*>(pixels.get());
  on_gpu.on_gpu = 1;
  EXPECT_TRUE(ByGpu(handle.get(), {on_gpu}, {{}}, target) ==
              ByCore(ParsePreprocessParams(list), {mixed.images[4]}));
}

TEST(CApiCuda, RegionsAreThoseOfTheCpu) {
  const MixedImages mixed;
  const ParameterList list = {{"size", "24,32"}, {"dtype", "uint8"}};
  const std::array<float, 8> rois = {3.0F, 5.0F, 40.0F, 30.0F, 0.0F, 0.0F, 20.5F, 17.0F};
  constexpr size_t kTensor = size_t{3} * 24 * 32;
  Bytes expected(2 * kTensor);
  Bytes actual(2 * kTensor);
  const auto stream = NewCudaStream(0);
  const CudaTarget target{0, stream.get()};
  const auto memory = AllocateCuda(actual.size(), target);
  for (const int32_t device : {ENDCAP_CPU, 0}) {
    const bool on_gpu = device != ENDCAP_CPU;
    const PreprocessorHandle handle = NewPreprocessor(list, device);
    auto* tensors = on_gpu ? static_cast<uint8_t*>(memory.get()) : expected.data();
    std::array<endcap_preprocess_output, 2> outputs{};
    for (size_t i = 0; i < outputs.size(); ++i) {
      outputs[i].tensor = tensors + i * kTensor;
      outputs[i].tensor_bytes = kTensor;
    }
    int32_t status = -1;
    ASSERT_EQ(endcap_preprocessor_run_rois_on_stream(handle.get(), mixed.images.data(), rois.data(),
                                                     outputs.data(), outputs.size(), &status,
                                                     on_gpu ? stream.get() : nullptr),
              0)
        << endcap_last_error();
    EXPECT_EQ(status, 0) << endcap_item_error(0);
  }
  CopyCuda(actual.data(), memory.get(), actual.size(), target);
  SynchronizeCuda(target);
  EXPECT_TRUE(actual == expected);
  EXPECT_FALSE(std::ranges::all_of(expected, [](uint8_t value) { return value == 0; }));
}

TEST(CApiCuda, RefusesWhatAGpuDoesNotDo) {
  const MixedImages mixed;
  const PreprocessorHandle handle = NewPreprocessor({{"size", "8"}}, 0);
  Bytes tensor(8 * 8 * 3 * sizeof(float));
  const endcap_preprocess_output output = {tensor.data(), tensor.size(), 0, 0, nullptr, nullptr, 0};
  endcap_image file = mixed.images[0];
  file.on_gpu = 1;
  EXPECT_TRUE(Refused("give encoded bytes in CPU memory",
                      endcap_preprocessor_run(handle.get(), &file, &output, 1, nullptr)));
  endcap_preprocessor* made = nullptr;
  EXPECT_TRUE(Refused(ErrorCode::kCuda, "99", endcap_preprocessor_new(nullptr, 0, 99, 1, &made)));
}

// Moves a call's tensors to the GPU, and its outputs back.
class OnGpu {
 public:
  OnGpu(DetectionCall& call, const CudaTarget& target) : call_(call), target_(target) {
    for (size_t i = 0; i < call.items.size(); ++i) {
      for (endcap_tensor& head : call.heads[i]) Move(head);
      for (endcap_tensor& output : call.outputs[i]) Move(output);
      if (call.items[i].geometry == nullptr) continue;
      memory_.push_back(Upload(call.items[i].geometry, 8 * sizeof(float), target));
      call.items[i].geometry = static_cast<const float*>(memory_.back().get());
      call.items[i].geometry_on_gpu = 1;
    }
  }
  void Fetch() {
    for (size_t i = 0; i < call_.items.size(); ++i) {
      for (size_t k = 0; k < call_.outputs[i].size(); ++k) {
        Bytes& bytes = call_.results.tensors[i][k];
        CopyCuda(bytes.data(), call_.outputs[i][k].data, bytes.size(), target_);
      }
    }
    SynchronizeCuda(target_);
  }

 private:
  void Move(endcap_tensor& tensor) {
    size_t bytes = GetElementSize(static_cast<DType>(tensor.dtype));
    for (int32_t i = 0; i < tensor.rank; ++i) bytes *= static_cast<size_t>(tensor.shape[i]);
    memory_.push_back(Upload(tensor.data, bytes, target_));
    tensor.data = memory_.back().get();
    tensor.on_gpu = 1;
  }

  DetectionCall& call_;
  CudaTarget target_;
  std::vector<std::shared_ptr<void>> memory_;
};

const ParameterList kYolov8 = {{"head", "yolov8"}, {"num_classes", "3"}, {"max_detections", "8"}};

TEST(CApiCuda, DetectionsAreThoseOfTheCpu) {
  const PostprocessParams params = ParsePostprocessParams(kYolov8);
  std::vector<HeadImage> images = MixedHeads(params);
  images.erase(images.begin() + 3);  // wrong shapes fail the call on a GPU
  const DetectionResults expected = DetectionsByCore(params, images);
  const auto stream = NewCudaStream(0);
  const CudaTarget target{0, stream.get()};
  const PostprocessorHandle handle = NewPostprocessor(kYolov8, 0);

  DetectionCall waits(handle.get(), params, images);
  OnGpu waiting(waits, target);
  ASSERT_EQ(waits.Run(handle.get(), stream.get(), /*wait=*/1), 0) << endcap_last_error();
  waiting.Fetch();
  EXPECT_TRUE(waits.Read() == expected);

  DetectionCall goes(handle.get(), params, images);
  OnGpu going(goes, target);
  ASSERT_EQ(goes.Run(handle.get(), stream.get(), /*wait=*/0), 0) << endcap_last_error();
  going.Fetch();
  EXPECT_EQ(goes.results.tensors, expected.tensors);
  EXPECT_EQ(goes.items[0].num_detections, -7) << "written without waiting";
}

TEST(CApiCuda, RefusesHeadsAndOutputsThatDoNotFit) {
  const PostprocessParams params = ParsePostprocessParams(kYolov8);
  const std::vector<HeadImage> images = {MixedHeads(params)[0], MixedHeads(params)[3]};
  const PostprocessorHandle handle = NewPostprocessor(kYolov8, 0);
  DetectionCall call(handle.get(), params, images);
  EXPECT_TRUE(Refused("memory of the GPU that runs this", call.Run(handle.get())));
  OnGpu moved(call, {0, nullptr});
  EXPECT_TRUE(Refused("head has shape", call.Run(handle.get())));
  endcap_postprocessor* made = nullptr;
  std::string levels = "640:9x9";
  for (int i = 0; i < 16; ++i) levels += ";640:9x9";
  const std::array<endcap_parameter, 3> grid = {
      {{"head", "ssd"}, {"anchors", "grid"}, {"anchor_grid", levels.c_str()}}};
  EXPECT_TRUE(Refused(ErrorCode::kUnsupported,
                      "more than 16 levels or 128 sizes is read by the CPU",
                      endcap_postprocessor_new(grid.data(), grid.size(), 0, 1, &made)));
}

TEST(CApiCuda, NmsKeepsWhatTheCpuKeeps) {
  const std::vector<float> boxes = {0, 0, 10, 10, 1, 0, 11, 10, 50, 50, 60, 60};
  const std::vector<float> scores = {0.5F, 0.9F, 0.7F};
  const auto stream = NewCudaStream(0);
  const CudaTarget target{0, stream.get()};
  const auto boxes_memory = Upload(boxes.data(), boxes.size() * sizeof(float), target);
  const auto scores_memory = Upload(scores.data(), scores.size() * sizeof(float), target);
  const auto kept_memory = AllocateCuda(4 * sizeof(int64_t), target);
  auto* kept = static_cast<int64_t*>(kept_memory.get());
  const auto nms = [&](size_t count, double threshold, int64_t most = -1) {
    return endcap_nms_cuda(static_cast<const float*>(boxes_memory.get()),
                           static_cast<const float*>(scores_memory.get()), nullptr, count,
                           threshold, most, 0, stream.get(), kept, kept + 3);
  };
  ASSERT_EQ(nms(3, 0.5), 0) << endcap_last_error();
  std::array<int64_t, 4> read{};
  CopyCuda(read.data(), kept, sizeof(read), target);
  SynchronizeCuda(target);
  EXPECT_EQ(read[0], 1);
  EXPECT_EQ(read[1], 2);
  EXPECT_EQ(read[3], 2);
  EXPECT_TRUE(Refused("iou_threshold is -1", nms(3, -1.0)));
  EXPECT_TRUE(Refused("max_detections is -2: give how many", nms(3, 0.5, -2)));
  EXPECT_TRUE(Refused("count is", nms(size_t{1} << 40, 0.5)));
}

}  // namespace
}  // namespace endcap
