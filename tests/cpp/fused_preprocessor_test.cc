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

Bytes Jpeg(int height, int width, int orientation, int luma_columns = 2, int luma_rows = 2) {
  JpegOptions options;
  options.orientation = orientation;
  options.luma_columns = luma_columns;
  options.luma_rows = luma_rows;
  return MakeJpeg(height, width, 3, options);
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

}  // namespace
}  // namespace endcap
