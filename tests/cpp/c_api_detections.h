#pragma once

#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "c_api_handles.h"
#include "endcap/postprocess.h"
#include "jpeg_writer.h"

namespace endcap::testing {

// The raw head of one image, and what comes with it.
struct HeadImage {
  std::vector<std::vector<uint8_t>> tensors;
  std::vector<std::vector<int64_t>> shapes;
  std::vector<DType> dtypes;
  std::optional<std::array<float, 8>> geometry;
  int32_t status = 0;
};

// Numbers from 0 to 1, of which many pass a threshold and many boxes overlap.
inline HeadImage RandomImage(const PostprocessParams& params, uint32_t seed) {
  constexpr int64_t kAnchors = 30;
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(0.0F, 1.0F);
  HeadImage image;
  for (const TensorSpec& spec : HeadInputs(params.head)) {
    std::vector<int64_t> shape(spec.shape.begin(), spec.shape.begin() + spec.rank);
    size_t elements = 1;
    for (int64_t& side : shape) {
      if (side < 0) side = kAnchors;
      elements *= static_cast<size_t>(side);
    }
    std::vector<uint8_t> bytes(elements * 4);
    for (size_t i = 0; i < elements; ++i) {
      const float number = uniform(random);
      const int32_t whole = 1;
      std::memcpy(bytes.data() + 4 * i,
                  spec.dtype == DType::kInt32 ? static_cast<const void*>(&whole) : &number, 4);
    }
    image.tensors.push_back(std::move(bytes));
    image.shapes.push_back(std::move(shape));
    image.dtypes.push_back(spec.dtype);
  }
  return image;
}

// One of each kind of item: with geometry, blank by its status, NaN, of a wrong shape, good.
inline std::vector<HeadImage> MixedHeads(const PostprocessParams& params) {
  std::vector<HeadImage> images;
  for (uint32_t i = 0; i < 5; ++i) images.push_back(RandomImage(params, i));
  images[0].geometry = {0.5F, 0.25F, 0.1F, 0.0F, 3.0F, 3.0F, 1.0F, 0.0F};
  images[1].status = 1;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(images[2].tensors[0].data(), &nan, sizeof(nan));
  images[3].shapes[0].push_back(1);
  return images;
}

struct DetectionResults {
  std::vector<std::vector<Bytes>> tensors;  // [image][output]
  std::vector<int32_t> num_detections;
  std::vector<int32_t> status;
  std::vector<int32_t> truncated;
  std::vector<int32_t> dropped;
  std::vector<std::string> messages;
  bool operator==(const DetectionResults&) const = default;
};

constexpr uint8_t kUntouched = 0xA5;

inline std::vector<Bytes> OutputMemory(const PostprocessParams& params) {
  std::vector<Bytes> memory;
  for (const TensorSpec& spec : PostprocessOutputs(params)) {
    TensorView view;
    view.dtype = spec.dtype;
    view.shape = spec.shape;
    view.rank = spec.rank;
    memory.emplace_back(view.size_bytes(), kUntouched);
  }
  return memory;
}

inline DetectionResults DetectionsByCore(const PostprocessParams& params,
                                         const std::vector<HeadImage>& images,
                                         std::optional<size_t> skipped = {}) {
  const auto specs = PostprocessOutputs(params);
  DetectionResults results;
  std::vector<PostprocessInput> inputs(images.size());
  std::vector<PostprocessOutput> outputs(images.size());
  for (size_t i = 0; i < images.size(); ++i) {
    const HeadImage& image = images[i];
    for (size_t k = 0; k < image.tensors.size(); ++k) {
      ConstTensorView view;
      view.data = image.tensors[k].data();
      view.dtype = image.dtypes[k];
      view.rank = static_cast<int>(image.shapes[k].size());
      std::copy(image.shapes[k].begin(), image.shapes[k].end(), view.shape.begin());
      inputs[i].head.push_back(view);
    }
    inputs[i].geometry = image.geometry ? image.geometry->data() : nullptr;
    inputs[i].status = image.status;
    results.tensors.push_back(OutputMemory(params));
    for (size_t k = 0; k < specs.size(); ++k) {
      TensorView view;
      view.data = skipped == k ? nullptr : results.tensors[i][k].data();
      view.dtype = specs[k].dtype;
      view.shape = specs[k].shape;
      view.rank = specs[k].rank;
      outputs[i].tensors.push_back(view);
    }
  }
  for (const PostprocessItem& item : Postprocessor(params, 1).Run(inputs, outputs)) {
    results.num_detections.push_back(item.num_detections);
    results.status.push_back(static_cast<int32_t>(item.status.code));
    results.truncated.push_back(item.truncated ? 1 : 0);
    results.dropped.push_back(item.dropped);
    results.messages.push_back(item.status.message);
  }
  return results;
}

// The items of one call in CPU memory, which a test may change before it runs them.
class DetectionCall {
 public:
  DetectionCall(const endcap_postprocessor* handle, const PostprocessParams& params,
                const std::vector<HeadImage>& images, std::optional<size_t> skipped = {})
      : items(images.size()), heads(images.size()), outputs(images.size()) {
    const endcap_tensor_spec* specs = nullptr;
    size_t spec_count = 0;
    EXPECT_EQ(endcap_postprocessor_outputs(handle, &specs, &spec_count), 0);
    for (size_t i = 0; i < images.size(); ++i) {
      const HeadImage& image = images[i];
      for (size_t k = 0; k < image.tensors.size(); ++k) {
        endcap_tensor tensor = {const_cast<uint8_t*>(image.tensors[k].data()),
                                static_cast<int32_t>(image.dtypes[k]),
                                static_cast<int32_t>(image.shapes[k].size()),
                                {},
                                0};
        std::copy(image.shapes[k].begin(), image.shapes[k].end(), tensor.shape);
        heads[i].push_back(tensor);
      }
      results.tensors.push_back(OutputMemory(params));
      for (size_t k = 0; k < spec_count; ++k) {
        endcap_tensor tensor = {results.tensors[i][k].data(), specs[k].dtype, specs[k].rank, {}, 0};
        std::copy(specs[k].shape, specs[k].shape + ENDCAP_MAX_RANK, tensor.shape);
        outputs[i].push_back(skipped == k ? endcap_tensor{} : tensor);
      }
      items[i] = {heads[i].data(),
                  image.geometry ? image.geometry->data() : nullptr,
                  0,
                  image.status,
                  outputs[i].data(),
                  -7,
                  -7,
                  -7,
                  -7};
    }
  }
  DetectionCall(const DetectionCall&) = delete;
  DetectionCall& operator=(const DetectionCall&) = delete;

  endcap_status Run(endcap_postprocessor* handle, void* stream = nullptr, int32_t wait = 1) {
    return endcap_postprocessor_run(handle, items.data(), items.size(), stream, wait);
  }
  // After a run that waited.
  const DetectionResults& Read() {
    for (size_t i = 0; i < items.size(); ++i) {
      results.num_detections.push_back(items[i].num_detections);
      results.status.push_back(items[i].item_status);
      results.truncated.push_back(items[i].truncated);
      results.dropped.push_back(items[i].dropped);
      results.messages.emplace_back(endcap_item_error(i));
    }
    return results;
  }

  std::vector<endcap_postprocess_item> items;
  std::vector<std::vector<endcap_tensor>> heads;
  std::vector<std::vector<endcap_tensor>> outputs;
  DetectionResults results;
};

}  // namespace endcap::testing
