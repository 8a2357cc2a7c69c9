// Preprocessor on a GPU, with the library built for the host, against the CPU: images in YUV.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "cuda_preprocess_run.h"
#include "yuv_images.h"

namespace endcap {
namespace {

using testing::AllYuvKinds;
using testing::Bytes;
using testing::ExpectSame;
using testing::OnCpu;
using testing::OnGpu;
using testing::PreprocessOnGpu;
using testing::Sized;
using testing::YuvImage;
using testing::YuvKind;

// Planes in device memory, each at an odd address.
class OnGpuYuv {
 public:
  explicit OnGpuYuv(const YuvImage& image) : view(image.view) {
    const CudaTarget target;
    view.device = Device::kCuda;
    for (size_t i = 0; i < image.planes.size(); ++i) {
      const Bytes& plane = image.planes[i];
      if (plane.empty()) continue;
      const size_t odd = 2 * i + 1;
      memory_[i] = AllocateCuda(plane.size() + odd, target);
      uint8_t* at = static_cast<uint8_t*>(memory_[i].get()) + odd;
      CopyCuda(at, plane.data(), plane.size(), target);
      view.planes[i].data = at;
    }
  }
  ImageView view;

 private:
  std::array<std::shared_ptr<void>, 3> memory_;
};

TEST_F(PreprocessOnGpu, YuvInCpuAndGpuMemory) {
  for (const Interpolation interpolation : {Interpolation::kBilinear, Interpolation::kBicubic}) {
    for (const Color color : {Color::kRgb, Color::kBgr, Color::kGray}) {
      PreprocessParams params = Sized(24, 36);
      params.color = color;
      params.interpolation = interpolation;
      std::vector<std::unique_ptr<YuvImage>> images;
      std::vector<std::unique_ptr<OnGpuYuv>> on_gpu;
      std::vector<ImageView> views;
      std::vector<ImageView> host_views;
      for (const YuvKind& kind : AllYuvKinds()) {
        const int width = 29 + static_cast<int>(images.size() % 11);
        images.push_back(std::make_unique<YuvImage>(kind, 23, width, images.size() % 4));
        on_gpu.push_back(std::make_unique<OnGpuYuv>(*images.back()));
        views.insert(views.end(), {images.back()->view, on_gpu.back()->view});
        host_views.insert(host_views.end(), {images.back()->view, images.back()->view});
      }
      ExpectSame(OnGpu(params, views), OnCpu(params, host_views));
    }
  }
}

// Rows that do not fit into shared memory are read in place.
TEST_F(PreprocessOnGpu, YuvOfVeryWideImages) {
  for (const Color color : {Color::kRgb, Color::kGray}) {
    PreprocessParams params = Sized(8, 36);
    params.fit = Fit::kStretch;
    params.color = color;
    for (const YuvKind& kind : AllYuvKinds()) {
      const YuvImage image(kind, 5, 13001);
      const OnGpuYuv on_gpu(image);
      ExpectSame(OnGpu(params, {image.view, on_gpu.view}), OnCpu(params, {image.view, image.view}));
    }
  }
}

TEST_F(PreprocessOnGpu, YuvWithRowsBottomUp) {
  const YuvImage image({}, 18, 26);
  ImageView flipped = image.view;
  YuvImage copy({}, 18, 26);
  for (size_t i = 0; i < 2; ++i) {
    const ptrdiff_t stride = image.view.planes[i].row_stride_bytes;
    const ptrdiff_t rows = static_cast<ptrdiff_t>(image.planes[i].size()) / stride;
    flipped.planes[i] = {image.planes[i].data() + stride * (rows - 1), -stride};
    for (ptrdiff_t y = 0; y < rows; ++y) {
      std::copy_n(image.planes[i].data() + stride * (rows - 1 - y), stride,
                  copy.planes[i].data() + stride * y);
    }
  }
  OnGpuYuv on_gpu(image);
  for (size_t i = 0; i < 2; ++i) {
    const ptrdiff_t stride = image.view.planes[i].row_stride_bytes;
    on_gpu.view.planes[i].data += flipped.planes[i].data - image.planes[i].data();
    on_gpu.view.planes[i].row_stride_bytes = -stride;
  }
  const PreprocessParams params = Sized(24, 36);
  ExpectSame(OnGpu(params, {flipped, on_gpu.view}), OnCpu(params, {copy.view, copy.view}));
}

}  // namespace
}  // namespace endcap
