#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "cuda/launch.h"
#include "decode/planes.h"
#include "endcap/implementation.h"
#include "endcap/preprocess.h"
#include "image_tensor.h"
#include "jpeg_writer.h"
#include "preprocess/cuda/fused_plan.h"

namespace endcap::testing {

// Device memory that holds `bytes`, from `offset` on, so that any alignment can be had.
class OnDevice {
 public:
  explicit OnDevice(size_t size, size_t offset = 0) : size_(size) {
    Check(cudaMalloc(reinterpret_cast<void**>(&memory_), size + offset), "cudaMalloc");
    data_ = memory_ + offset;
  }
  OnDevice(const uint8_t* bytes, size_t size, size_t offset = 0) : OnDevice(size, offset) {
    Check(cudaMemcpy(data_, bytes, size, cudaMemcpyDefault), "cudaMemcpy");
  }
  ~OnDevice() { (void)cudaFree(memory_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  uint8_t* data() const { return data_; }
  Bytes Read() const {
    Bytes bytes(size_);
    Check(cudaMemcpy(bytes.data(), data_, size_, cudaMemcpyDefault), "cudaMemcpy");
    return bytes;
  }

 private:
  size_t size_;
  uint8_t* memory_ = nullptr;
  uint8_t* data_ = nullptr;
};

// What the CPU's scalar implementation, the definition, makes of an image.
inline Bytes OnCpu(const PreprocessParams& params, const ImageView& image) {
  ForceImplementation("scalar");
  const Results results = OnCpu(params, std::vector{image});
  EXPECT_EQ(results.items[0].status.code, ErrorCode::kOk) << results.items[0].status.message;
  ForceImplementation("auto");
  return results.tensors[0];
}

// One launch of the kernel, image by image put together by a test.
class FusedBatch {
 public:
  explicit FusedBatch(const PreprocessParams& params) : params_(params), plan_(params) {}

  // Interleaved pixels; they lie `offset` bytes beyond an aligned address. orientation: 1 to 4.
  void AddPixels(const ImageView& image, size_t offset = 0, int orientation = 1) {
    const int channels = image.format == PixelFormat::kGray ? 1 : 3;
    const ptrdiff_t stride = image.planes[0].row_stride_bytes;
    const auto row_bytes = static_cast<ptrdiff_t>(image.width) * channels;
    const ptrdiff_t before = stride < 0 ? -stride * (image.height - 1) : 0;
    const ptrdiff_t size = std::abs(stride) * (image.height - 1) + row_bytes;
    const uint8_t* block = Upload(image.planes[0].data - before, static_cast<size_t>(size), offset);
    FusedImage pixels;
    pixels.planes[0] = block + before;
    pixels.row_stride_bytes[0] = stride;
    pixels.source = image.format == PixelFormat::kGray  ? FusedSource::kGray
                    : image.format == PixelFormat::kBgr ? FusedSource::kBgr
                                                        : FusedSource::kRgb;
    pixels.width = image.width;
    pixels.height = image.height;
    plan_.Add(pixels, Place(params_, image.width, image.height), orientation, NewTensor());
  }

  // The planes of a file.
  void AddJpeg(const ImageView& file) {
    const ImageHeader header = ReadHeader(file, params_.limits);
    const int width = header.oriented_width();
    const int height = header.oriented_height();
    const Placement placement = Place(params_, width, height);
    JpegPlaneReader reader(file, header,
                           {params_.channels(), DecodedEighths(params_, placement, width, height)});
    const JpegPlaneLayout& layout = reader.layout();
    ASSERT_TRUE(layout.available);
    Bytes block(layout.size_bytes);
    reader.Decode(block.data());
    const uint8_t* device_block = Upload(block.data(), block.size(), 0);
    FusedImage pixels;
    pixels.source = FusedSource::kYcc;
    pixels.upsampling = layout.upsampling;
    for (size_t i = 0; i < static_cast<size_t>(layout.plane_count); ++i) {
      pixels.planes[i] = device_block + layout.planes[i].offset_bytes;
      pixels.row_stride_bytes[i] = static_cast<int64_t>(layout.planes[i].row_stride_bytes);
    }
    pixels.width = layout.width;
    pixels.height = layout.height;
    pixels.chroma_width = layout.planes[1].width;
    pixels.chroma_height = layout.planes[1].height;
    plan_.Add(pixels, placement, header.orientation, NewTensor());
  }

  void AddBlank() { plan_.AddBlank(NewTensor()); }

  // Tensors lie so many bytes beyond an aligned address.
  void set_tensor_offset(size_t bytes) { tensor_offset_ = bytes; }

  // Instead of what the plan chooses.
  void set_block_rows(int rows) { block_rows_ = rows; }

  FusedPlan& plan() { return plan_; }

  std::vector<Bytes> Run() {
    Bytes block(plan_.block_bytes());
    plan_.WriteBlock(block.data());
    const OnDevice device_block(block.data(), block.size());
    FusedLaunch launch = plan_.Launch(device_block.data());
    if (block_rows_ > 0) launch.block_rows = block_rows_;
    LaunchFused(launch, nullptr);
    std::vector<Bytes> tensors;
    tensors.reserve(tensors_.size());
    for (const auto& tensor : tensors_) tensors.push_back(tensor->Read());
    return tensors;
  }

 private:
  const uint8_t* Upload(const uint8_t* bytes, size_t size, size_t offset) {
    uploads_.push_back(std::make_unique<OnDevice>(bytes, size, offset));
    return uploads_.back()->data();
  }
  void* NewTensor() {
    tensors_.push_back(
        std::make_unique<OnDevice>(ImageTensor(params_, nullptr).size_bytes(), tensor_offset_));
    return tensors_.back()->data();
  }

  PreprocessParams params_;
  FusedPlan plan_;
  size_t tensor_offset_ = 0;
  int block_rows_ = 0;
  std::vector<std::unique_ptr<OnDevice>> uploads_;
  std::vector<std::unique_ptr<OnDevice>> tensors_;
};

inline void ExpectSamePixels(const PreprocessParams& params, const ImageView& image,
                             const std::string& what) {
  FusedBatch batch(params);
  batch.AddPixels(image);
  const Bytes expected = OnCpu(params, image);
  for (const int block_rows : {1, 3}) {
    batch.set_block_rows(block_rows);
    EXPECT_TRUE(batch.Run()[0] == expected) << what << ", blocks of " << block_rows << " rows";
  }
}

inline void ExpectSameJpeg(const PreprocessParams& params, const Bytes& file,
                           const std::string& what) {
  FusedBatch batch(params);
  batch.AddJpeg(Encoded(file));
  ASSERT_FALSE(::testing::Test::HasFatalFailure()) << what;
  EXPECT_TRUE(batch.Run()[0] == OnCpu(params, Encoded(file))) << what;
}

inline ImageView Pixels(PixelFormat format, const Bytes& pixels, int width, int height) {
  const int channels = format == PixelFormat::kGray ? 1 : 3;
  return ImageView::Interleaved(format, pixels.data(), width, height, width * channels);
}

inline PreprocessParams Sized(int height, int width, Fit fit = Fit::kStretch) {
  PreprocessParams params;
  params.height = height;
  params.width = width;
  params.fit = fit;
  return params;
}

inline std::string Describe(const PreprocessParams& params) {
  std::ostringstream text;
  for (const ParameterInfo& info : DescribePreprocessParams(params)) {
    text << info.name << ' ' << info.value << ", ";
  }
  return text.str();
}

struct Filter {
  Interpolation interpolation;
  bool antialias;
};
inline constexpr std::array kFilters = {
    Filter{Interpolation::kNearest, false}, Filter{Interpolation::kBilinear, false},
    Filter{Interpolation::kBicubic, false}, Filter{Interpolation::kArea, false},
    Filter{Interpolation::kBilinear, true}, Filter{Interpolation::kBicubic, true},
    Filter{Interpolation::kArea, true}};

}  // namespace endcap::testing
