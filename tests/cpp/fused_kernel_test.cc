// The kernel that makes tensors, launched for the host, against the CPU's scalar implementation:
// every bit.

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "cuda_runtime/launch.h"
#include "decode/planes.h"
#include "endcap/implementation.h"
#include "endcap/preprocess.h"
#include "image_tensor.h"
#include "jpeg_writer.h"
#include "preprocess/cuda/fused_filter.cuh"
#include "preprocess/cuda/fused_plan.h"
#include "preprocess/resize/resize_arithmetic.h"

namespace endcap {
namespace {

using testing::Bytes;
using testing::Encoded;
using testing::ImageTensor;
using testing::JpegOptions;
using testing::MakeJpeg;
using testing::MakePixels;
using testing::Results;
using testing::WriteJpeg;

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
Bytes OnCpu(const PreprocessParams& params, const ImageView& image) {
  ForceImplementation("scalar");
  const Results results = testing::OnCpu(params, {image});
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
    pixels.source =
        layout.upsampling == ChromaUpsampling::kGray ? FusedSource::kGray : FusedSource::kYuv;
    pixels.yuv = MakeYuvCoefficients(YuvMatrix::kBt601, YuvRange::kFull);
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

void ExpectSamePixels(const PreprocessParams& params, const ImageView& image,
                      const std::string& what) {
  FusedBatch batch(params);
  batch.AddPixels(image);
  const Bytes expected = OnCpu(params, image);
  for (const int block_rows : {1, 3}) {
    batch.set_block_rows(block_rows);
    EXPECT_TRUE(batch.Run()[0] == expected) << what << ", blocks of " << block_rows << " rows";
  }
}

void ExpectSameJpeg(const PreprocessParams& params, const Bytes& file, const std::string& what) {
  FusedBatch batch(params);
  batch.AddJpeg(Encoded(file));
  ASSERT_FALSE(::testing::Test::HasFatalFailure()) << what;
  EXPECT_TRUE(batch.Run()[0] == OnCpu(params, Encoded(file))) << what;
}

ImageView Pixels(PixelFormat format, const Bytes& pixels, int width, int height) {
  const int channels = format == PixelFormat::kGray ? 1 : 3;
  return ImageView::Interleaved(format, pixels.data(), width, height, width * channels);
}

PreprocessParams Sized(int height, int width, Fit fit = Fit::kStretch) {
  PreprocessParams params;
  params.height = height;
  params.width = width;
  params.fit = fit;
  return params;
}

std::string Describe(const PreprocessParams& params) {
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
constexpr std::array kFilters = {
    Filter{Interpolation::kNearest, false}, Filter{Interpolation::kBilinear, false},
    Filter{Interpolation::kBicubic, false}, Filter{Interpolation::kArea, false},
    Filter{Interpolation::kBilinear, true}, Filter{Interpolation::kBicubic, true},
    Filter{Interpolation::kArea, true}};

constexpr std::array kDTypes = {DType::kFloat32, DType::kFloat16, DType::kUint8, DType::kInt8};

TEST(FusedKernel, AnAreaOfWholeRatiosAndHalves) {
  for (const int ratio : {1, 2, 3, 4}) {
    const Bytes pixels = MakePixels(12 * ratio, 16 * ratio, 3);
    PreprocessParams params = Sized(12, 16);
    params.interpolation = Interpolation::kArea;
    ExpectSamePixels(params, Pixels(PixelFormat::kRgb, pixels, 16 * ratio, 12 * ratio),
                     "ratio " + std::to_string(ratio));
  }
}

TEST(FusedKernel, TensorsAtOddAddresses) {
  const Bytes pixels = MakePixels(20, 30, 3);
  const ImageView image = Pixels(PixelFormat::kRgb, pixels, 30, 20);
  for (const DType dtype : kDTypes) {
    PreprocessParams params = Sized(8, 16);
    params.dtype = dtype;
    FusedBatch batch(params);
    batch.set_tensor_offset(GetElementSize(dtype));
    batch.AddPixels(image);
    EXPECT_TRUE(batch.Run()[0] == OnCpu(params, image)) << DTypeName(dtype);
  }
}

TEST(FusedKernel, WideTensorsTakeSeveralBlocks) {
  const Bytes pixels = MakePixels(6, 90, 3);
  for (const int width : {1020, 1024, 1028, 2500}) {
    for (const Fit fit : {Fit::kStretch, Fit::kLetterbox}) {
      PreprocessParams params = Sized(5, width, fit);
      ExpectSamePixels(params, Pixels(PixelFormat::kRgb, pixels, 90, 6), Describe(params));
      params.antialias = true;
      ExpectSamePixels(params, Pixels(PixelFormat::kRgb, pixels, 90, 6), Describe(params));
    }
  }
}

// JPEG planes through the kernel.
struct Sampling {
  int channels;
  int luma_columns;
  int luma_rows;
};
constexpr std::array kSamplings = {Sampling{3, 1, 1}, Sampling{3, 2, 1}, Sampling{3, 1, 2},
                                   Sampling{3, 2, 2}, Sampling{1, 1, 1}};

Bytes File(const Sampling& sampling, int height, int width, int orientation = 0) {
  JpegOptions options;
  options.orientation = orientation;
  options.luma_columns = sampling.luma_columns;
  options.luma_rows = sampling.luma_rows;
  return MakeJpeg(height, width, sampling.channels, options);
}

std::string DescribeFile(const Sampling& sampling, int height, int width) {
  return std::to_string(sampling.channels) + " channels " + std::to_string(sampling.luma_columns) +
         "x" + std::to_string(sampling.luma_rows) + ", " + std::to_string(width) + "x" +
         std::to_string(height);
}

// The image's own size, so that every pixel shows.
TEST(FusedJpeg, EverySizeOfEverySampling) {
  for (const Sampling& sampling : kSamplings) {
    for (int width = 5; width <= 40; ++width) {
      for (const int height : {1, 2, 3, 8, 17}) {
        PreprocessParams params = Sized(height, width);
        params.dtype = DType::kUint8;
        ExpectSameJpeg(params, File(sampling, height, width),
                       DescribeFile(sampling, height, width));
      }
    }
  }
}

TEST(FusedJpeg, EveryOrientationFilterAndColor) {
  for (const Sampling& sampling : kSamplings) {
    for (int orientation = 1; orientation <= 8; ++orientation) {
      const Bytes file = File(sampling, 45, 67, orientation);
      for (const Fit fit : {Fit::kLetterbox, Fit::kCenterCrop}) {
        for (const Filter& filter : kFilters) {
          for (const Quantize quantize : {Quantize::kUint8, Quantize::kNone}) {
            for (const Color color : {Color::kRgb, Color::kBgr, Color::kGray}) {
              PreprocessParams params = Sized(21, 30);
              params.fit = fit;
              params.resize_shorter = 33;
              params.interpolation = filter.interpolation;
              params.antialias = filter.antialias;
              params.quantize = quantize;
              params.color = color;
              ExpectSameJpeg(
                  params, file,
                  DescribeFile(sampling, 45, 67) + ", orientation " + std::to_string(orientation));
            }
          }
        }
      }
    }
  }
}

TEST(FusedJpeg, ScaledDecoding) {
  PreprocessParams params = Sized(20, 20);
  params.decode = DecodeMode::kFast;
  for (const Sampling& sampling : kSamplings) {
    const bool subsampled = sampling.luma_columns * sampling.luma_rows > 1;
    for (const int side : {33, 40, 41, 56, 85, 160, 175}) {
      if (side >= 160 && subsampled) continue;  // at 1/8 there are no planes of these
      ExpectSameJpeg(params, File(sampling, side, side + 9),
                     DescribeFile(sampling, side, side + 9));
    }
  }
}

// The sums of OpenCV's arithmetic, which the kernel keeps in float32.

TEST(FusedFilter, OpencvTermsOfEveryWeight) {
  const int32_t most = 255 * kOpencvOne;
  for (int32_t weight = 0; weight <= kOpencvOne; ++weight) {
    const bool every = weight % 256 == 0 || weight % 683 == 1;
    for (int32_t horizontal = 0; horizontal <= most; horizontal += every ? 1 : 5) {
      const float before = kVerticalZero + 128 * static_cast<float>(kOpencvOne);
      const float sum = AddOpencvTerm(before, kHorizontalZero + static_cast<uint32_t>(horizontal),
                                      static_cast<float>(weight));
      ASSERT_EQ(sum,
                before + static_cast<float>(128 * weight + OpencvVerticalTerm(horizontal, weight)))
          << horizontal << " times " << weight;
    }
  }
}

// How rows are read, in each variant.

// Rows of padding, rows at a window's edge and the last, too few rows, each at any place in a
// block.
TEST(FusedRows, BlocksOfSeveralRows) {
  const Bytes pixels = MakePixels(23, 40, 3);
  const ImageView image = Pixels(PixelFormat::kRgb, pixels, 40, 23);
  for (const Filter& filter : kFilters) {
    for (const Fit fit : {Fit::kLetterbox, Fit::kStretch, Fit::kCenterCrop}) {
      PreprocessParams params = Sized(31, 24, fit);
      params.resize_shorter = 40;
      params.interpolation = filter.interpolation;
      params.antialias = filter.antialias;
      const Bytes expected = OnCpu(params, image);
      FusedBatch batch(params);
      batch.AddPixels(image);
      batch.AddBlank();
      batch.AddPixels(image, 5);
      for (int rows = 1; rows <= 33; rows += rows < 6 ? 1 : 9) {
        batch.set_block_rows(rows);
        const auto tensors = batch.Run();
        EXPECT_TRUE(tensors[0] == expected) << rows << " rows: " << Describe(params);
        EXPECT_TRUE(tensors[1] == Bytes(expected.size(), 0)) << rows << " rows";
        EXPECT_TRUE(tensors[2] == expected) << rows << " rows: " << Describe(params);
      }
    }
  }
}

// Returns the variant that an image takes, alone in its batch.
FusedVariant GetVariant(const PreprocessParams& params, const ImageView& image) {
  FusedBatch batch(params);
  batch.AddPixels(image);
  const FusedLaunch launch = batch.plan().Launch(nullptr);
  const auto* variant =
      std::find(std::begin(launch.variant_count), std::end(launch.variant_count), 1);
  return static_cast<FusedVariant>(variant - std::begin(launch.variant_count));
}

// Mirrored and upside down, rows that begin and end anywhere, of two blocks' columns.
TEST(FusedRows, CopiedRowsOfEveryOrientationThatKeepsTheSides) {
  constexpr int kHeight = 9;
  for (const int width : {1, 2, 40, 1500, 8181}) {
    const Bytes pixels = MakePixels(kHeight, width, 3);
    for (int orientation = 1; orientation <= 4; ++orientation) {
      const bool mirrored = orientation == 2 || orientation == 3;
      const bool upside_down = orientation >= 3;
      Bytes oriented;
      for (int y = 0; y < kHeight; ++y) {
        for (int x = 0; x < width; ++x) {
          const int from =
              (upside_down ? kHeight - 1 - y : y) * width + (mirrored ? width - 1 - x : x);
          const auto pixel = pixels.begin() + 3 * ptrdiff_t{from};
          oriented.insert(oriented.end(), pixel, pixel + 3);
        }
      }
      for (const Filter& filter : kFilters) {
        PreprocessParams params = Sized(5, width == 1500 ? 1100 : 24);
        params.interpolation = filter.interpolation;
        params.antialias = filter.antialias;
        FusedBatch batch(params);
        for (const size_t offset : {size_t{0}, size_t{7}}) {
          batch.AddPixels(Pixels(PixelFormat::kRgb, pixels, width, kHeight), offset, orientation);
        }
        const FusedLaunch launch = batch.plan().Launch(nullptr);
        EXPECT_EQ(launch.variant_count[static_cast<int>(FusedVariant::kCopied)], 2);
        const Bytes expected = OnCpu(params, Pixels(PixelFormat::kRgb, oriented, width, kHeight));
        for (const int rows : {1, 2}) {
          batch.set_block_rows(rows);
          for (const Bytes& tensor : batch.Run()) {
            EXPECT_TRUE(tensor == expected)
                << "width " << width << ", orientation " << orientation << ": " << Describe(params);
          }
        }
      }
    }
  }
}

TEST(FusedRows, RowsTooWideForSharedMemoryAreReadInPlace) {
  const int width = kFusedMaxStagedBytes / 3 + 9;
  const Bytes pixels = MakePixels(7, width, 3);
  for (const Filter& filter : kFilters) {
    PreprocessParams params = Sized(5, 8);
    params.interpolation = filter.interpolation;
    params.antialias = filter.antialias;
    ExpectSamePixels(params, Pixels(PixelFormat::kRgb, pixels, width, 7), Describe(params));
    JpegOptions options;
    for (options.orientation = 1; options.orientation <= 8; ++options.orientation) {
      ExpectSameJpeg(params, WriteJpeg(pixels, 7, width, 3, options),
                     "orientation " + std::to_string(options.orientation) + Describe(params));
    }
  }
}

TEST(FusedRows, WideAndNarrowImagesInOneBatch) {
  const int width = kFusedMaxStagedBytes / 3 + 9;
  const Bytes wide = MakePixels(3, width, 3);
  const Bytes narrow = MakePixels(20, 30, 3);
  const PreprocessParams params = Sized(5, 8, Fit::kLetterbox);
  FusedBatch batch(params);
  batch.AddPixels(Pixels(PixelFormat::kRgb, narrow, 30, 20));
  batch.AddPixels(Pixels(PixelFormat::kRgb, wide, width, 3));
  batch.AddBlank();
  const auto tensors = batch.Run();
  EXPECT_TRUE(tensors[0] == OnCpu(params, Pixels(PixelFormat::kRgb, narrow, 30, 20)));
  EXPECT_TRUE(tensors[1] == OnCpu(params, Pixels(PixelFormat::kRgb, wide, width, 3)));
  EXPECT_TRUE(tensors[2] == Bytes(tensors[2].size(), 0));
}

TEST(FusedRows, RowsThatFitOneAtATimeOnly) {
  PreprocessParams params = Sized(5, 8);
  params.antialias = true;
  const int copied = kFusedMaxStagedBytes / 6 - 11;  // twice, see FusedBuffers
  const int staged = kFusedMaxStagedBytes / 4 - 11;
  for (const bool antialias : {false, true}) {
    params.antialias = antialias;
    const Bytes colors = MakePixels(7, copied, 3);
    ExpectSamePixels(params, Pixels(PixelFormat::kRgb, colors, copied, 7), "copied");
    EXPECT_EQ(GetVariant(params, Pixels(PixelFormat::kRgb, colors, copied, 7)),
              FusedVariant::kCopied);
    const Bytes wider = MakePixels(7, staged, 3);
    ExpectSamePixels(params, Pixels(PixelFormat::kRgb, wider, staged, 7), "too wide to be copied");
    EXPECT_EQ(GetVariant(params, Pixels(PixelFormat::kRgb, wider, staged, 7)),
              FusedVariant::kStaged);
    const Bytes grays = MakePixels(7, staged, 1);
    ExpectSamePixels(params, Pixels(PixelFormat::kGray, grays, staged, 7), "staged");
    EXPECT_EQ(GetVariant(params, Pixels(PixelFormat::kGray, grays, staged, 7)),
              FusedVariant::kStaged);
  }
}

}  // namespace
}  // namespace endcap
