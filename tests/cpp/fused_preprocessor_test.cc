// Preprocessor on a GPU, with the library built for the host, against the CPU: every bit of the
// tensors, and all that is said about them.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "cuda_preprocess_run.h"
#include "endcap/cuda.h"
#include "endcap/preprocess.h"
#include "error_matchers.h"
#include "image_tensor.h"
#include "jpeg_writer.h"
#include "yuv_images.h"

namespace endcap {
namespace {

using testing::AllYuvKinds;
using testing::Bytes;
using testing::CudaRun;
using testing::Encoded;
using testing::ExpectSame;
using testing::ImageTensor;
using testing::JpegOptions;
using testing::kGpu;
using testing::MakeJpeg;
using testing::MakePixels;
using testing::OnCpu;
using testing::OnGpu;
using testing::PreprocessOnGpu;
using testing::Results;
using testing::Sized;
using testing::Throws;
using testing::YuvImage;
using testing::YuvKind;

Bytes Jpeg(int height, int width, int orientation, int luma_columns = 2, int luma_rows = 2) {
  JpegOptions options;
  options.orientation = orientation;
  options.luma_columns = luma_columns;
  options.luma_rows = luma_rows;
  return MakeJpeg(height, width, 3, options);
}

TEST_F(PreprocessOnGpu, FilesOfEveryKindInOneBatch) {
  const std::vector<Bytes> files = {Jpeg(45, 67, 0),
                                    Jpeg(67, 45, 6),
                                    Jpeg(40, 30, 3, 1, 1),
                                    Jpeg(33, 90, 8, 2, 1),
                                    Jpeg(50, 50, 0, 1, 2),
                                    MakeJpeg(31, 64, 1),
                                    MakeJpeg(40, 41, 4),
                                    Jpeg(20, 100, 0, 4, 1),
                                    Jpeg(300, 200, 5),
                                    Jpeg(3, 3, 0),
                                    MakeJpeg(90, 60, 3, {.progressive = true})};
  std::vector<ImageView> images;
  for (const Bytes& file : files) images.push_back(Encoded(file));
  for (const DecodeMode decode : {DecodeMode::kExact, DecodeMode::kFast}) {
    for (const Color color : {Color::kRgb, Color::kGray}) {
      PreprocessParams params = Sized(24, 36);
      params.decode = decode;
      params.color = color;
      const Results results = OnGpu(params, images);
      ExpectSame(results, OnCpu(params, images));
      EXPECT_EQ(results.items[0].decoder, JpegDecoder::kHybrid);
      EXPECT_EQ(results.items[6].decoder, JpegDecoder::kCpu) << "CMYK";
      EXPECT_GT(results.items[0].decode_ns, 0);
    }
  }
}

TEST_F(PreprocessOnGpu, TheCpusDecoderByName) {
  const std::vector<Bytes> files = {Jpeg(45, 67, 0), Jpeg(67, 45, 6), MakeJpeg(31, 64, 1)};
  std::vector<ImageView> images;
  for (const Bytes& file : files) images.push_back(Encoded(file));
  PreprocessParams params = Sized(24, 36);
  params.jpeg_decoder = JpegDecoder::kCpu;
  const Results results = OnGpu(params, images);
  ExpectSame(results, OnCpu(params, images));
  for (const PreprocessItem& item : results.items) EXPECT_EQ(item.decoder, JpegDecoder::kCpu);
}

TEST_F(PreprocessOnGpu, ABadImageIsBlankAndItsNeighboursAreWhole) {
  const Bytes good = Jpeg(45, 67, 0);
  Bytes cut = good;
  cut.resize(cut.size() / 2);
  const Bytes garbage(100, 7);
  ImageView yuv;
  yuv.format = PixelFormat::kNv12;
  const std::vector<ImageView> images = {Encoded(good), Encoded(cut), Encoded(garbage), yuv,
                                         Encoded(good)};
  const PreprocessParams params = Sized(24, 36);
  const Results results = OnGpu(params, images);
  ExpectSame(results, OnCpu(params, images));
  EXPECT_EQ(results.items[1].status.code, ErrorCode::kCorruptImage);
  EXPECT_EQ(results.tensors[1], Bytes(results.tensors[1].size(), 0));
  EXPECT_EQ(results.items[3].status.code, ErrorCode::kInvalidArgument);
}

TEST_F(PreprocessOnGpu, PixelsInCpuAndGpuMemory) {
  const int width = 31;
  const int height = 22;
  const Bytes pixels = MakePixels(height, width, 3);
  const CudaTarget target;
  const auto memory = AllocateCuda(pixels.size(), target);
  CopyCuda(memory.get(), pixels.data(), pixels.size(), target);
  for (const PixelFormat format : {PixelFormat::kRgb, PixelFormat::kBgr, PixelFormat::kGray}) {
    const ptrdiff_t stride = format == PixelFormat::kGray ? width : 3 * width;
    const ImageView host = ImageView::Interleaved(format, pixels.data(), width, height, stride);
    ImageView bottom_up = host;
    bottom_up.planes[0] = {pixels.data() + stride * (height - 1), -stride};
    ImageView device = host;
    device.planes[0].data = static_cast<const uint8_t*>(memory.get());
    device.device = Device::kCuda;
    const PreprocessParams params = Sized(24, 36);
    const Results results = OnGpu(params, {host, bottom_up, device});
    ExpectSame(results, OnCpu(params, {host, bottom_up, host}));
    EXPECT_EQ(results.items[0].decoder, JpegDecoder::kAuto);
  }
}

TEST_F(PreprocessOnGpu, ImagesMayChangeAsSoonAsRunReturns) {
  const PreprocessParams params = Sized(24, 36);
  Preprocessor preprocessor(params, kGpu, 1);
  Bytes pixels = MakePixels(22, 31, 3);
  const ImageView image = ImageView::Interleaved(PixelFormat::kRgb, pixels.data(), 31, 22, 93);
  const Results expected = OnCpu(params, {image});
  CudaRun run(preprocessor, {image}, nullptr);
  std::fill(pixels.begin(), pixels.end(), uint8_t{0});
  ExpectSame(run.Fetch(), expected);
}

// Nothing is waited for between the runs: memory of one must not be written by a later one before
// it is done with.
TEST_F(PreprocessOnGpu, ManyRunsOnTheirWayAtATime) {
  const PreprocessParams params = Sized(24, 36);
  Preprocessor preprocessor(params, kGpu, 2);
  std::vector<Bytes> files;
  for (int i = 0; i < 8; ++i) files.push_back(Jpeg(20 + 31 * i, 200 - 20 * i, i + 1));
  std::vector<CudaRun> runs;
  for (const Bytes& file : files) {
    runs.emplace_back(preprocessor, std::vector<ImageView>{Encoded(file), Encoded(files[0])},
                      nullptr);
  }
  for (size_t i = 0; i < files.size(); ++i) {
    ExpectSame(runs[i].Fetch(), OnCpu(params, {Encoded(files[i]), Encoded(files[0])}));
  }
}

TEST_F(PreprocessOnGpu, ThreadsShareOnePreprocessor) {
  const PreprocessParams params = Sized(24, 36);
  Preprocessor preprocessor(params, kGpu, 2);
  const std::vector<Bytes> files = {Jpeg(45, 67, 0), Jpeg(120, 45, 6), Jpeg(30, 31, 2)};
  std::vector<std::thread> threads;
  std::vector<Results> results(files.size(), Results(1));
  for (size_t i = 0; i < files.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int repeat = 0; repeat < 5; ++repeat) {
        results[i] = CudaRun(preprocessor, {Encoded(files[i])}, nullptr).Fetch();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < files.size(); ++i) {
    ExpectSame(results[i], OnCpu(params, {Encoded(files[i])}));
  }
}

TEST_F(PreprocessOnGpu, WhatCannotBeRunIsRefusedBeforeAnyWork) {
  const PreprocessParams params = Sized(24, 36);
  Preprocessor preprocessor(params, kGpu, 1);
  const Bytes file = Jpeg(45, 67, 0);
  const std::array images = {Encoded(file)};
  Bytes tensor(ImageTensor(params, nullptr).size_bytes());
  TensorView view = ImageTensor(params, nullptr);
  view.data = tensor.data();
  const std::array outputs = {PreprocessOutput{view, nullptr, nullptr, 0}};
  EXPECT_TRUE(Throws(ErrorCode::kInvalidArgument, "cuda:0",
                     [&] { preprocessor.Run(images, outputs, nullptr); }));
  EXPECT_TRUE(Throws(ErrorCode::kInvalidArgument, "1 images came with 0 outputs",
                     [&] { preprocessor.Run(images, {}, nullptr); }));
  EXPECT_TRUE(preprocessor.Run({}, {}, nullptr).empty());
  EXPECT_TRUE(Throws(ErrorCode::kCuda, "cuda:7",
                     [&] { Preprocessor(params, DeviceId{Device::kCuda, 7}); }));
}

TEST_F(PreprocessOnGpu, MemoryOfAnotherPlaceIsThatImagesError) {
  const PreprocessParams params = Sized(24, 36);
  const Bytes file = Jpeg(45, 67, 0);
  ImageView encoded_on_gpu = Encoded(file);
  encoded_on_gpu.device = Device::kCuda;
  const Bytes pixels = MakePixels(22, 31, 3);
  ImageView elsewhere = ImageView::Interleaved(PixelFormat::kRgb, pixels.data(), 31, 22, 93);
  elsewhere.device = Device::kCuda;
  elsewhere.device_id = 3;
  const Results results = OnGpu(params, {encoded_on_gpu, elsewhere, Encoded(file)});
  EXPECT_EQ(results.items[0].status.code, ErrorCode::kUnsupported);
  EXPECT_EQ(results.items[1].status.code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(results.items[2].status.code, ErrorCode::kOk);
}

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
