#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "common/half.h"
#include "endcap/cuda.h"
#include "endcap/implementation.h"
#include "endcap/postprocess.h"

// Runs batches on the CPU and on the emulated GPU, and compares all outputs.

namespace endcap::testing {

// Before the library is looked for, which happens once a process.
inline const bool kLibraryIsNamed = setenv("ENDCAP_CUDA_LIBRARY", EMULATED_CUDA_LIBRARY, 1) == 0;

inline constexpr std::array<float, 8> kGeometry = {0.5F,    0.5F,    10.0F, 20.0F,
                                                   1200.0F, 1100.0F, 1.0F,  0.0F};

inline PostprocessParams Params(HeadFamily family, int classes) {
  PostprocessParams params;
  params.head.family = family;
  params.head.num_classes = classes;
  params.max_detections = 100;
  return params;
}

struct TestTensor {
  std::vector<uint8_t> bytes;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;

  ConstTensorView View(const void* data, Device device) const {
    ConstTensorView view;
    view.data = data;
    view.dtype = dtype;
    view.rank = static_cast<int>(shape.size());
    std::copy(shape.begin(), shape.end(), view.shape.begin());
    view.device = device;
    return view;
  }
};

template <typename T>
TestTensor Tensor(const std::vector<T>& values, DType dtype, std::vector<int64_t> shape) {
  TestTensor tensor{std::vector<uint8_t>(values.size() * sizeof(T)), dtype, std::move(shape)};
  if (!values.empty()) std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

inline TestTensor FloatTensor(const std::vector<float>& values, std::vector<int64_t> shape,
                              bool half = false) {
  if (!half) return Tensor(values, DType::kFloat32, std::move(shape));
  std::vector<uint16_t> halves(values.size());
  std::transform(values.begin(), values.end(), halves.begin(), FloatToHalf);
  return Tensor(halves, DType::kFloat16, std::move(shape));
}

struct TestImage {
  std::vector<TestTensor> head;
  std::optional<std::array<float, 8>> geometry;
  bool geometry_on_device = false;
  int32_t status = 0;
  size_t misaligned_by = 0;       // bytes, of the heads on the device
  bool staged = false;            // the head is in CPU memory
  std::vector<size_t> skipped{};  // outputs that nobody wants
  bool without_rle = false;       // RLE is not requested, where the family has it
};

struct Results {
  std::vector<std::vector<std::vector<uint8_t>>> tensors;  // [image][output] bytes
  std::vector<PostprocessItem> items;
  std::vector<std::vector<std::string>> rles;  // of each image
};

inline constexpr uint8_t kUnwritten = 0xA5;

inline PostprocessOutput OutputViews(const std::vector<TensorSpec>& specs, const TestImage& image,
                                     const std::vector<uint8_t*>& data, Device device) {
  PostprocessOutput output;
  for (size_t i = 0; i < specs.size(); ++i) {
    TensorView view;
    const bool skipped = std::ranges::find(image.skipped, i) != image.skipped.end();
    view.data = skipped ? nullptr : data[i];
    view.dtype = specs[i].dtype;
    view.shape = specs[i].shape;
    view.rank = specs[i].rank;
    view.device = device;
    output.tensors.push_back(view);
  }
  return output;
}

inline size_t CountBytes(const TensorSpec& spec) {
  TensorView view;
  view.shape = spec.shape;
  view.rank = spec.rank;
  view.dtype = spec.dtype;
  return view.size_bytes();
}

// Memory of a device, where a tensor may begin anywhere.
class TestMemory {
 public:
  TestMemory(DeviceId device, const std::vector<uint8_t>& bytes, size_t offset = 0) {
    if (device.type == Device::kCpu) {
      const auto memory = std::make_shared<std::vector<uint8_t>>(bytes);
      memory_ = {memory, memory->data()};
    } else {
      memory_ = AllocateCuda(bytes.size() + offset, {});
    }
    data_ = static_cast<uint8_t*>(memory_.get()) + offset;
    if (device.type == Device::kCuda) CopyCuda(data_, bytes.data(), bytes.size(), {});
  }
  uint8_t* data() const { return data_; }

 private:
  std::shared_ptr<void> memory_;
  uint8_t* data_ = nullptr;
};

inline Results RunOn(DeviceId device, const PostprocessParams& params,
                     const std::vector<TestImage>& images) {
  const bool on_gpu = device.type == Device::kCuda;
  Postprocessor postprocessor(params, device, 1);
  const auto specs = PostprocessOutputs(params);
  std::vector<TestMemory> memory;
  std::vector<PostprocessInput> inputs(images.size());
  std::vector<PostprocessOutput> outputs;
  std::vector<std::vector<uint8_t*>> written(images.size());
  Results results;
  results.rles.resize(images.size(), {"unwritten"});
  for (size_t i = 0; i < images.size(); ++i) {
    const TestImage& image = images[i];
    for (const TestTensor& tensor : image.head) {
      const bool staged = image.staged || !on_gpu;
      const auto& head = memory.emplace_back(staged ? DeviceId{} : device, tensor.bytes,
                                             staged ? 0 : image.misaligned_by);
      inputs[i].head.push_back(tensor.View(head.data(), staged ? Device::kCpu : Device::kCuda));
    }
    if (image.geometry) inputs[i].geometry = image.geometry->data();
    if (image.geometry && image.geometry_on_device && on_gpu) {
      const auto* bytes = reinterpret_cast<const uint8_t*>(image.geometry->data());
      const auto& geometry =
          memory.emplace_back(device, std::vector<uint8_t>(bytes, bytes + sizeof(*image.geometry)));
      inputs[i].geometry = reinterpret_cast<const float*>(geometry.data());
      inputs[i].geometry_device = Device::kCuda;
    }
    inputs[i].status = image.status;
    for (const TensorSpec& spec : specs) {
      const std::vector<uint8_t> unwritten(CountBytes(spec), kUnwritten);
      written[i].push_back(memory.emplace_back(device, unwritten).data());
    }
    outputs.push_back(OutputViews(specs, image, written[i], device.type));
    if (GivesRle(params) && !image.without_rle) outputs[i].rle = &results.rles[i];
  }
  results.items = postprocessor.Run(inputs, outputs);
  results.tensors.resize(images.size());
  for (size_t i = 0; i < images.size(); ++i) {
    for (size_t k = 0; k < specs.size(); ++k) {
      std::vector<uint8_t>& bytes = results.tensors[i].emplace_back(CountBytes(specs[k]));
      if (on_gpu) {
        CopyCuda(bytes.data(), written[i][k], bytes.size(), {});
      } else {
        bytes.assign(written[i][k], written[i][k] + bytes.size());
      }
    }
  }
  if (on_gpu) SynchronizeCuda({});
  return results;
}

inline constexpr DeviceId kGpu{Device::kCuda, 0};

// By the scalar implementation, the definition.
inline Results RunOnCpu(const PostprocessParams& params, const std::vector<TestImage>& images) {
  ForceImplementation("scalar");
  Results results = RunOn({}, params, images);
  ForceImplementation("auto");
  return results;
}

// Every byte of the outputs, the status, the message; the same again with on_nan kDrop where an
// image fails. Returns the CPU's results.
inline Results ExpectSameAsCpu(const PostprocessParams& params,
                               const std::vector<TestImage>& images) {
  Results expected = RunOnCpu(params, images);
  const Results actual = RunOn(kGpu, params, images);
  const auto specs = PostprocessOutputs(params);
  for (size_t i = 0; i < images.size(); ++i) {
    SCOPED_TRACE("image " + std::to_string(i));
    EXPECT_EQ(actual.items[i].status.code, expected.items[i].status.code);
    EXPECT_EQ(actual.items[i].status.message, expected.items[i].status.message);
    EXPECT_EQ(actual.items[i].num_detections, expected.items[i].num_detections);
    EXPECT_EQ(actual.items[i].truncated, expected.items[i].truncated);
    EXPECT_EQ(actual.items[i].dropped, expected.items[i].dropped);
    EXPECT_EQ(actual.rles[i], expected.rles[i]);
    for (size_t k = 0; k < specs.size(); ++k) {
      EXPECT_EQ(actual.tensors[i][k], expected.tensors[i][k]) << specs[k].name;
    }
  }
  const bool fails = std::ranges::any_of(
      expected.items, [](const PostprocessItem& item) { return !item.status.ok(); });
  if (fails && params.head.on_nan == OnNan::kError && !IsClassification(params.head.family)) {
    SCOPED_TRACE("on_nan=drop");
    PostprocessParams dropping = params;
    dropping.head.on_nan = OnNan::kDrop;
    ExpectSameAsCpu(dropping, images);
  }
  return expected;
}

// Heads whose boxes crowd around some centres, so that many overlap, with scores on a grid, so that
// many are equal. Rows are box, then `scores` numbers.
struct RandomHead {
  std::mt19937 random;
  float score_scale = 1.0F;
  int score_steps = 400;

  explicit RandomHead(uint32_t seed) : random(seed) {}

  float Uniform(float low, float high) {
    return std::uniform_real_distribution<float>(low, high)(random);
  }
  float Score() {
    const float uniform = Uniform(0.0F, 1.0F);
    const float steps = static_cast<float>(score_steps);
    return std::floor(uniform * uniform * uniform * steps) / steps * score_scale;
  }
  // cx, cy, w, h
  std::array<float, 4> Box() {
    const auto centre = std::floor(Uniform(0.0F, 12.0F)) * 50.0F + 20.0F;
    return {centre + Uniform(-9.0F, 9.0F), 600.0F - centre + Uniform(-9.0F, 9.0F),
            Uniform(20.0F, 60.0F), Uniform(20.0F, 60.0F)};
  }
  // [4+C, A]
  std::vector<float> Yolov8(size_t classes, size_t anchors) {
    std::vector<float> head((4 + classes) * anchors);
    for (size_t a = 0; a < anchors; ++a) {
      const auto box = Box();
      for (size_t i = 0; i < 4; ++i) head[i * anchors + a] = box[i];
      for (size_t c = 0; c < classes; ++c) head[(4 + c) * anchors + a] = Score();
    }
    return head;
  }
  // [A, extra + C]; extra: 5 (box, objectness)
  std::vector<float> Yolov5(size_t classes, size_t anchors) {
    std::vector<float> head;
    for (size_t a = 0; a < anchors; ++a) {
      const auto box = Box();
      head.insert(head.end(), box.begin(), box.end());
      for (size_t c = 0; c < classes + 1; ++c) head.push_back(Score());
    }
    return head;
  }
};

}  // namespace endcap::testing
