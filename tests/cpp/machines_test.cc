// Outputs are the same on every machine: their hashes, which were recorded on x86-64, hold on
// arm64, too. Inputs are made by integer arithmetic, since functions of the C library may differ.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "endcap/implementation.h"
#include "endcap/postprocess.h"
#include "endcap/preprocess.h"
#include "head_tensors.h"
#include "image_tensor.h"
#include "jpeg_writer.h"
#include "yuv_images.h"

namespace endcap {
namespace {

using testing::Bytes;
using testing::Encoded;
using testing::YuvImage;

// FNV-1a.
class Hash {
 public:
  void Add(const void* data, size_t bytes) {
    const auto* at = static_cast<const uint8_t*>(data);
    for (size_t i = 0; i < bytes; ++i) value_ = (value_ ^ at[i]) * 0x100000001B3U;
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xCBF29CE484222325U;
};

class Numbers {
 public:
  explicit Numbers(uint32_t seed) : state_(seed) {}
  // From `least` on, a multiple of span / 65536 below least + span.
  float Next(float least, float span) {
    state_ = state_ * 1664525U + 1013904223U;
    return least + span * (static_cast<float>(state_ >> 16) / 65536.0F);
  }

 private:
  uint32_t state_;
};

// Shades, edges and noise.
Bytes MakePicture(int height, int width) {
  Bytes pixels;
  Numbers noise(7);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < 3; ++c) {
        const int shade = (3 * x + 2 * y + 70 * c) % 200;
        const int edge = (x / 11 + y / 7) % 3 == 0 ? 40 : 0;
        pixels.push_back(static_cast<uint8_t>(shade + edge + static_cast<int>(noise.Next(0, 16))));
      }
    }
  }
  return pixels;
}

// Ends what a test forced.
class MachinesTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (GetParam() == std::string("simd") && SimdTargets().empty()) {
      GTEST_SKIP() << "this CPU has no SIMD target";
    }
    ForceImplementation(GetParam());
  }
  void TearDown() override { ForceImplementation("auto"); }
};

void AddTensor(const PreprocessParams& params, const ImageView& image, Hash& hash) {
  const testing::Results results = testing::OnCpu(params, {image});
  ASSERT_EQ(results.items[0].status.code, ErrorCode::kOk) << results.items[0].status.message;
  hash.Add(results.tensors[0].data(), results.tensors[0].size());
  hash.Add(results.geometry[0].data(), sizeof(results.geometry[0]));
}

// Every way to resize an image into every dtype.
uint64_t HashTensors(const ImageView& image) {
  Hash hash;
  for (const Interpolation interpolation : {Interpolation::kNearest, Interpolation::kBilinear,
                                            Interpolation::kBicubic, Interpolation::kArea}) {
    for (const bool antialias : {false, true}) {
      for (const Quantize quantize : {Quantize::kUint8, Quantize::kNone}) {
        for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kUint8, DType::kInt8}) {
          PreprocessParams params;
          params.height = 40;
          params.width = 52;
          params.interpolation = interpolation;
          params.antialias = antialias;
          params.quantize = quantize;
          params.dtype = dtype;
          params.mean = {0.485, 0.456, 0.406};
          params.std = {0.229, 0.224, 0.225};
          try {
            Validate(params);
          } catch (const Error&) {
            continue;  // not every filter goes with every arithmetic
          }
          AddTensor(params, image, hash);
        }
      }
    }
  }
  return hash.value();
}

TEST_P(MachinesTest, TensorsOfPixels) {
  const Bytes pixels = MakePicture(67, 91);
  EXPECT_EQ(HashTensors(ImageView::Interleaved(PixelFormat::kRgb, pixels.data(), 91, 67, 3 * 91)),
            0x6C25905D0847920BU);
}

TEST_P(MachinesTest, TensorsOfYuv) {
  const YuvImage image(PixelFormat::kNv12, 67, 91);
  EXPECT_EQ(HashTensors(image.view), 0xDC75D5AD1D6950F1U);
}

TEST_P(MachinesTest, TensorsOfJpegs) {
  Hash hash;
  PreprocessParams params;
  params.height = params.width = 64;
  for (const bool progressive : {false, true}) {
    const Bytes file = testing::WriteJpeg(MakePicture(67, 91), 67, 91, 3,
                                          {.progressive = progressive, .orientation = 6});
    AddTensor(params, Encoded(file), hash);
  }
  EXPECT_EQ(hash.value(), 0xB47905DCA4E07D65U);
}

// Least number, and span.
using Range = std::array<float, 2>;

// A head's tensor, and the view of it.
struct HeadTensor {
  std::vector<float> values;
  ConstTensorView view;
};

// Row r has numbers of ranges[r], rows beyond the ranges have those of the last.
HeadTensor MakeTensor(int64_t rows, int64_t columns, const std::vector<Range>& ranges) {
  HeadTensor tensor;
  Numbers numbers(11);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      const auto [least, span] = ranges[std::min(static_cast<size_t>(row), ranges.size() - 1)];
      tensor.values.push_back(numbers.Next(least, span));
    }
  }
  tensor.view = testing::Floats(tensor.values, {rows, columns});
  return tensor;
}

void AddDetections(const PostprocessParams& params, const std::vector<ConstTensorView>& head,
                   Hash& hash) {
  std::vector<Bytes> memory;
  PostprocessOutput output;
  for (const TensorSpec& spec : PostprocessOutputs(params)) {
    TensorView view;
    view.dtype = spec.dtype;
    view.shape = spec.shape;
    view.rank = spec.rank;
    memory.emplace_back(view.size_bytes());
    view.data = memory.back().data();
    output.tensors.push_back(view);
  }
  std::vector<std::string> masks;
  if (GivesRle(params)) output.rle = &masks;
  const Geometry geometry{0.5F, 0.25F, 3, 5, 600, 300, 1, 0};
  const std::array<float, 8> numbers = geometry.ToArray();
  const std::array inputs = {PostprocessInput{head, numbers.data(), 0}};
  const std::array outputs = {output};
  const auto items = Postprocessor(params, 1).Run(inputs, outputs);
  ASSERT_TRUE(items[0].status.ok()) << items[0].status.message;
  ASSERT_GT(items[0].num_detections, 10);
  for (const Bytes& each : memory) hash.Add(each.data(), each.size());
  for (const std::string& each : masks) hash.Add(each.data(), each.size());
}

PostprocessParams MakeParams(HeadFamily family) {
  PostprocessParams params;
  params.head.family = family;
  params.head.num_classes = 3;
  params.head.input_height = params.head.input_width = 160;
  params.max_detections = 60;
  return params;
}

constexpr Range kCentre = {0, 160};
constexpr Range kSide = {8, 40};
constexpr Range kScore = {0, 1};
constexpr Range kSigned = {-2, 4};

TEST_P(MachinesTest, Masks) {
  Hash hash;
  PostprocessParams params = MakeParams(HeadFamily::kYolov8Seg);
  params.head.mask_coefficients = 8;
  params.head.prototype_height = params.head.prototype_width = 40;
  const HeadTensor head =
      MakeTensor(4 + 3 + 8, 525, {kCentre, kCentre, kSide, kSide, kScore, kScore, kScore, kSigned});
  HeadTensor prototypes = MakeTensor(8, 1600, {kSigned});
  prototypes.view = testing::Floats(prototypes.values, {8, 40, 40});
  for (const auto resolution : {MaskResolution::kSource, MaskResolution::kPrototype}) {
    params.mask_resolution = resolution;
    AddDetections(params, {head.view, prototypes.view}, hash);
  }
  EXPECT_EQ(hash.value(), 0x2330FB6586038754U);
}

TEST_P(MachinesTest, RotatedBoxes) {
  Hash hash;
  PostprocessParams params = MakeParams(HeadFamily::kYolov8Obb);
  const HeadTensor head =
      MakeTensor(4 + 3 + 1, 525, {kCentre, kCentre, kSide, kSide, kScore, kScore, kScore, kSigned});
  for (const RotatedNms method :
       {RotatedNms::kPolygon, RotatedNms::kProbiou, RotatedNms::kProbiouFast}) {
    params.rotated_nms = method;
    AddDetections(params, {head.view}, hash);
  }
  EXPECT_EQ(hash.value(), 0x177363ECB70B6DD2U);
}

TEST_P(MachinesTest, ScoresOfLogits) {
  Hash hash;
  const HeadTensor logits = MakeTensor(300, 3, {kSigned});
  const HeadTensor boxes = MakeTensor(300, 4, {{0.2F, 0.6F}});
  AddDetections(MakeParams(HeadFamily::kRtdetr), {logits.view, boxes.view}, hash);
  EXPECT_EQ(hash.value(), 0x90C7B664F4635ABFU);
}

INSTANTIATE_TEST_SUITE_P(Implementations, MachinesTest, ::testing::Values("scalar", "simd"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace endcap
