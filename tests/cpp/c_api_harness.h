#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "endcap/c_api.h"
#include "endcap/cuda.h"
#include "endcap/error.h"
#include "endcap/postprocess.h"
#include "endcap/preprocess.h"
#include "image_tensor.h"
#include "jpeg_writer.h"

// Calls of the C functions, on the CPU or a GPU, and the same by the classes behind them.

namespace endcap::testing {

struct FreeHandle {
  void operator()(endcap_preprocessor* handle) const { endcap_preprocessor_free(handle); }
  void operator()(endcap_postprocessor* handle) const { endcap_postprocessor_free(handle); }
};
using PreprocessorHandle = std::unique_ptr<endcap_preprocessor, FreeHandle>;
using PostprocessorHandle = std::unique_ptr<endcap_postprocessor, FreeHandle>;

template <typename Handle>
std::unique_ptr<Handle, FreeHandle> NewHandle(endcap_status (*make)(const endcap_parameter*, size_t,
                                                                    int32_t, int32_t, Handle**),
                                              const ParameterList& list, int32_t device,
                                              int32_t threads) {
  std::vector<endcap_parameter> parameters;
  for (const auto& [name, value] : list) parameters.push_back({name.c_str(), value.c_str()});
  Handle* made = nullptr;
  EXPECT_EQ(make(parameters.data(), parameters.size(), device, threads, &made), 0)
      << endcap_last_error();
  return std::unique_ptr<Handle, FreeHandle>(made);
}

inline PreprocessorHandle NewPreprocessor(const ParameterList& list, int32_t device = ENDCAP_CPU,
                                          int32_t threads = 1) {
  return NewHandle(endcap_preprocessor_new, list, device, threads);
}

inline PostprocessorHandle NewPostprocessor(const ParameterList& list, int32_t device = ENDCAP_CPU,
                                            int32_t threads = 1) {
  return NewHandle(endcap_postprocessor_new, list, device, threads);
}

// Whether `status`, of the call just made, is `code` and its message holds `part`.
inline ::testing::AssertionResult Refused(ErrorCode code, const std::string& part,
                                          endcap_status status) {
  const std::string message = endcap_last_error();
  if (status == static_cast<endcap_status>(code) && message.find(part) != std::string::npos) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure()
         << "the status is " << endcap_status_name(status) << "; last message: " << message;
}

inline ::testing::AssertionResult Refused(const std::string& part, endcap_status status) {
  return Refused(ErrorCode::kInvalidArgument, part, status);
}

constexpr uint8_t kUntouched = 0xA5;

// Bytes of the host, and their copy on the GPU that a call works on.
struct Memory {
  Bytes bytes;
  std::shared_ptr<void> on_gpu;
  CudaTarget target;

  Memory(Bytes of_host, const CudaTarget* gpu) : bytes(std::move(of_host)) {
    if (gpu == nullptr) return;
    target = *gpu;
    on_gpu = AllocateCuda(bytes.size(), *gpu);
    CopyCuda(on_gpu.get(), bytes.data(), bytes.size(), *gpu);
  }
  void* data() { return on_gpu == nullptr ? bytes.data() : on_gpu.get(); }
  void Fetch() {
    if (on_gpu == nullptr) return;
    CopyCuda(bytes.data(), on_gpu.get(), bytes.size(), target);
    SynchronizeCuda(target);
  }
};

// The results of a batch, tensors in CPU memory.
struct ImageResults {
  std::vector<Bytes> tensors;
  std::vector<std::array<float, 8>> geometry;
  std::vector<int32_t> status;
  std::vector<std::string> messages;

  explicit ImageResults(size_t count) : tensors(count), geometry(count), status(count, -1) {}
  bool operator==(const ImageResults&) const = default;
};

struct Size {
  int height = 0;
  int width = 0;
};

inline endcap_image CImage(const Bytes& file) {
  return {ENDCAP_ENCODED, 0, file.data(), file.size(), 0, 0, 0};
}

inline endcap_image CImage(endcap_pixel_format format, const uint8_t* pixels, int width, int height,
                           int64_t row_stride_bytes) {
  return {format, 0, pixels, 0, width, height, row_stride_bytes};
}

inline ImageView CoreView(const endcap_image& image) {
  if (image.format == ENDCAP_ENCODED) return ImageView::Encoded(image.data, image.size_bytes);
  return ImageView::Interleaved(static_cast<PixelFormat>(image.format), image.data, image.width,
                                image.height, image.row_stride_bytes);
}

// One image by a Preprocessor whose parameters have its size: its tensor, or those of its regions.
inline ImageResults ByCore(PreprocessParams params, const endcap_image& image, const Size& size,
                           const std::optional<std::vector<Roi>>& rois = {}) {
  if (size.height > 0) params.height = size.height;
  if (size.width > 0) params.width = size.width;
  ImageResults results(rois ? rois->size() : 1);
  std::vector<PreprocessOutput> outputs;
  for (size_t i = 0; i < results.tensors.size(); ++i) {
    TensorView view = ImageTensor(params, nullptr);
    results.tensors[i].resize(view.size_bytes());
    view.data = results.tensors[i].data();
    outputs.push_back({view, results.geometry[i].data(), &results.status[i], static_cast<int>(i)});
  }
  PreprocessInput input{CoreView(image), {}, outputs};
  if (rois) input.rois = *rois;
  const PreprocessItem item = Preprocessor(params, 1).Run({&input, 1})[0];
  for (const ItemStatus& status : item.rois) results.messages.push_back(status.message);
  if (!rois) results.messages.push_back(item.status.message);
  return results;
}

// The same for each image of a batch. sizes: empty, or one of each image.
inline ImageResults ByCore(const ParameterList& list, const std::vector<endcap_image>& images,
                           const std::vector<Size>& sizes = {}) {
  ImageResults results(images.size());
  for (size_t i = 0; i < images.size(); ++i) {
    const ImageResults one =
        ByCore(ParsePreprocessParams(list), images[i], sizes.empty() ? Size{} : sizes[i]);
    results.tensors[i] = one.tensors[0];
    results.geometry[i] = one.geometry[0];
    results.geometry[i][7] = static_cast<float>(i);  // source_index
    results.status[i] = one.status[0];
    results.messages.push_back(one.messages[0]);
  }
  return results;
}

// The outputs of one call of the C functions.
class ImageCall {
 public:
  ImageCall(const endcap_preprocessor* handle, const std::vector<Size>& sizes,
            const CudaTarget* gpu = nullptr)
      : results(sizes.size()) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      endcap_tensor_spec spec;
      EXPECT_EQ(endcap_preprocessor_tensor(handle, sizes[i].height, sizes[i].width, &spec), 0)
          << endcap_last_error();
      const auto elements = static_cast<size_t>(spec.shape[0] * spec.shape[1] * spec.shape[2]);
      Memory& memory = memory_.emplace_back(
          Bytes(elements * GetElementSize(static_cast<DType>(spec.dtype)), kUntouched), gpu);
      outputs.push_back({memory.data(), memory.bytes.size(), sizes[i].height, sizes[i].width,
                         results.geometry[i].data(), &results.status[i], static_cast<int32_t>(i)});
    }
  }
  ImageCall(const ImageCall&) = delete;
  ImageCall& operator=(const ImageCall&) = delete;

  // After a call that returned `status`.
  const ImageResults& Fetch(endcap_status status) {
    EXPECT_EQ(status, 0) << endcap_last_error();
    for (size_t i = 0; i < memory_.size(); ++i) {
      results.messages.emplace_back(endcap_item_error(i));
      memory_[i].Fetch();
      results.tensors[i] = memory_[i].bytes;
    }
    return results;
  }

  ImageResults results;
  std::vector<endcap_preprocess_output> outputs;

 private:
  std::vector<Memory> memory_;
};

inline ImageResults ByC(endcap_preprocessor* handle, const std::vector<endcap_image>& images,
                        std::vector<Size> sizes = {}, const CudaTarget* gpu = nullptr) {
  sizes.resize(images.size());
  ImageCall call(handle, sizes, gpu);
  return call.Fetch(endcap_preprocessor_run(handle, images.data(), call.outputs.data(),
                                            images.size(), gpu == nullptr ? nullptr : gpu->stream));
}

// Files and pixels of every kind, good and bad; they point into this object.
struct MixedImages {
  Bytes color = MakeJpeg(90, 120);
  Bytes gray = MakeJpeg(50, 70, 1);
  Bytes rotated = MakeJpeg(40, 64, 3, {.orientation = 6});
  Bytes cut{color.begin(), color.begin() + static_cast<ptrdiff_t>(color.size() / 2)};
  Bytes pixels = MakePixels(30, 40, 3);
  std::vector<endcap_image> images = {
      CImage(color),
      CImage(gray),
      CImage(cut),
      CImage(rotated),
      CImage(ENDCAP_RGB, pixels.data(), 40, 30, 120),
      CImage(ENDCAP_BGR, pixels.data() + 120, 25, 20, 120),
      CImage(ENDCAP_GRAY, pixels.data(), 120, 30, 120),
      CImage(ENDCAP_RGB, pixels.data() + 29 * 120, 40, 30, -120),  // bottom up
      CImage(Bytes{}),
      CImage(ENDCAP_RGB, nullptr, 0, 0, 0),
  };

  MixedImages() = default;
  MixedImages(const MixedImages&) = delete;
  MixedImages& operator=(const MixedImages&) = delete;
};

inline const ParameterList kYolov8 = {
    {"head", "yolov8"}, {"num_classes", "3"}, {"max_detections", "8"}};

// The raw head of one image of kYolov8, and what comes with it.
struct HeadImage {
  std::vector<float> head;
  std::vector<int64_t> shape = {7, 30};
  std::optional<std::array<float, 8>> geometry{};
  int32_t status = 0;
};

// One of each kind: with geometry, blank by its status, NaN, of a wrong shape, good.
inline std::vector<HeadImage> MixedHeads() {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(0.0F, 1.0F);
  std::vector<HeadImage> images(5);
  for (HeadImage& image : images) {
    for (int i = 0; i < 7 * 30; ++i) image.head.push_back(uniform(random));
  }
  images[0].geometry = {0.5F, 0.25F, 0.1F, 0.0F, 3.0F, 3.0F, 1.0F, 0.0F};
  images[1].status = 1;
  images[2].head[0] = std::numeric_limits<float>::quiet_NaN();
  images[3].shape.push_back(1);
  return images;
}

struct DetectionResults {
  std::vector<std::vector<Bytes>> tensors;    // [image][output]
  std::vector<std::array<int32_t, 4>> items;  // num_detections, status, truncated, dropped
  std::vector<std::string> messages;
  bool operator==(const DetectionResults&) const = default;
};

inline DetectionResults DetectionsByCore(const std::vector<HeadImage>& images) {
  Postprocessor engine(ParsePostprocessParams(kYolov8), 1);
  DetectionResults results;
  results.tensors.resize(images.size());
  std::vector<PostprocessInput> inputs(images.size());
  std::vector<PostprocessOutput> outputs(images.size());
  for (size_t i = 0; i < images.size(); ++i) {
    ConstTensorView head;
    head.data = images[i].head.data();
    head.rank = static_cast<int>(images[i].shape.size());
    std::ranges::copy(images[i].shape, head.shape.begin());
    inputs[i] = {
        {head}, images[i].geometry ? images[i].geometry->data() : nullptr, images[i].status};
    for (const TensorSpec& spec : engine.outputs()) {
      TensorView view;
      view.dtype = spec.dtype;
      view.shape = spec.shape;
      view.rank = spec.rank;
      view.data = results.tensors[i].emplace_back(view.size_bytes(), kUntouched).data();
      outputs[i].tensors.push_back(view);
    }
  }
  for (const PostprocessItem& item : engine.Run(inputs, outputs)) {
    results.items.push_back({item.num_detections, static_cast<int32_t>(item.status.code),
                             item.truncated ? 1 : 0, item.dropped});
    results.messages.push_back(item.status.message);
  }
  return results;
}

// The items of one call, which a test may change before it runs them.
class DetectionCall {
 public:
  DetectionCall(const endcap_postprocessor* handle, const std::vector<HeadImage>& images,
                const CudaTarget* gpu = nullptr)
      : items(images.size()), heads(images.size()), outputs(images.size()) {
    const int32_t on_gpu = gpu == nullptr ? 0 : 1;
    const endcap_tensor_spec* specs = nullptr;
    size_t count = 0;
    EXPECT_EQ(endcap_postprocessor_outputs(handle, &specs, &count), 0);
    memory_.reserve(images.size() * (count + 2));
    const auto keep = [&](const void* data, size_t size) {
      const auto* bytes = static_cast<const uint8_t*>(data);
      return memory_.emplace_back(Bytes(bytes, bytes + size), gpu).data();
    };
    for (size_t i = 0; i < images.size(); ++i) {
      const HeadImage& image = images[i];
      heads[i] = {keep(image.head.data(), image.head.size() * sizeof(float)),
                  ENDCAP_FLOAT32,
                  static_cast<int32_t>(image.shape.size()),
                  {},
                  on_gpu};
      std::ranges::copy(image.shape, heads[i].shape);
      items[i] = {&heads[i], nullptr, 0, image.status, nullptr, -7, -7, -7, -7};
      if (image.geometry) {
        items[i].geometry = static_cast<float*>(keep(image.geometry->data(), 8 * sizeof(float)));
        items[i].geometry_on_gpu = on_gpu;
      }
      for (size_t k = 0; k < count; ++k) {
        size_t bytes = GetElementSize(static_cast<DType>(specs[k].dtype));
        for (int32_t axis = 0; axis < specs[k].rank; ++axis) {
          bytes *= static_cast<size_t>(specs[k].shape[axis]);
        }
        const Bytes untouched(bytes, kUntouched);
        outputs[i].push_back(
            {keep(untouched.data(), bytes), specs[k].dtype, specs[k].rank, {}, on_gpu});
        std::copy(specs[k].shape, specs[k].shape + ENDCAP_MAX_RANK, outputs[i][k].shape);
        written_.push_back(&memory_.back());
      }
      items[i].outputs = outputs[i].data();
    }
  }
  DetectionCall(const DetectionCall&) = delete;
  DetectionCall& operator=(const DetectionCall&) = delete;

  endcap_status Run(endcap_postprocessor* handle, void* stream = nullptr, int32_t wait = 1) {
    return endcap_postprocessor_run(handle, items.data(), items.size(), stream, wait);
  }
  Bytes& Output(size_t item, size_t k) {
    Memory& memory = *written_[item * outputs[0].size() + k];
    memory.Fetch();
    return memory.bytes;
  }
  DetectionResults Read() {
    DetectionResults results;
    results.tensors.resize(items.size());
    for (size_t i = 0; i < items.size(); ++i) {
      for (size_t k = 0; k < outputs[i].size(); ++k) results.tensors[i].push_back(Output(i, k));
      results.items.push_back(
          {items[i].num_detections, items[i].item_status, items[i].truncated, items[i].dropped});
      results.messages.emplace_back(endcap_item_error(i));
    }
    return results;
  }

  std::vector<endcap_postprocess_item> items;
  std::vector<endcap_tensor> heads;
  std::vector<std::vector<endcap_tensor>> outputs;

 private:
  std::vector<Memory> memory_;
  std::vector<Memory*> written_;
};

}  // namespace endcap::testing
