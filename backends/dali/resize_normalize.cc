// fn.endcap.resize_normalize: decoded images -> images, geometry, status.
#include <stdexcept>

#include "dali/core/format.h"
#include "images_operator.h"

namespace endcap::operators {
namespace {

using ::dali::CPUBackend;
using ::dali::GPUBackend;

constexpr int kHeight = 0, kWidth = 1, kChannels = 2;  // dims of "HWC"
constexpr uint8_t kNoPixels[1] = {};

int32_t ToImageFormat(::dali::DALIImageType type) {
  switch (type) {
    case ::dali::DALI_RGB:
      return ENDCAP_RGB;
    case ::dali::DALI_BGR:
      return ENDCAP_BGR;
    case ::dali::DALI_GRAY:
      return ENDCAP_GRAY;
    default:
      throw std::invalid_argument(
          "image_type is one that endcap does not read: give types.RGB, types.BGR or types.GRAY");
  }
}

class ResizeNormalize : public ImagesOperator {
 public:
  ResizeNormalize(const ::dali::OpSpec& spec, bool on_gpu)
      : ImagesOperator(spec, on_gpu),
        format_(ToImageFormat(spec.GetArgument<::dali::DALIImageType>("image_type"))) {}

 protected:
  std::vector<endcap_image> ReadImages(const ::dali::Workspace& ws) const override {
    return ws.InputIsType<GPUBackend>(0) ? Read(ws.Input<GPUBackend>(0), true)
                                         : Read(ws.Input<CPUBackend>(0), false);
  }

 private:
  template <typename Backend>
  std::vector<endcap_image> Read(const ::dali::TensorList<Backend>& pixels, bool on_gpu) const {
    const int count = pixels.num_samples();
    if (count > 0 && (pixels.type() != DALI_UINT8 || pixels.sample_dim() != 3)) {
      throw std::invalid_argument(
          ::dali::make_string("images are ", ::dali::TypeTable::GetTypeInfo(pixels.type()).name(),
                              " of ", pixels.sample_dim(), " dims: give uint8 of layout HWC"));
    }
    std::vector<endcap_image> images(count);
    for (int i = 0; i < count; ++i) {
      const auto& shape = pixels.tensor_shape(i);
      endcap_image& image = images[i];
      image.format = ChooseFormat(shape[kChannels], i);
      image.on_gpu = on_gpu ? 1 : 0;
      image.data = ::dali::volume(shape) == 0 ? kNoPixels : pixels.template tensor<uint8_t>(i);
      image.height = static_cast<int32_t>(shape[kHeight]);
      image.width = static_cast<int32_t>(shape[kWidth]);
      image.row_stride_bytes = shape[kWidth] * shape[kChannels];
    }
    return images;
  }

  // One channel is gray with any image_type.
  int32_t ChooseFormat(int64_t channels, int sample) const {
    if (channels == 1) return ENDCAP_GRAY;
    if (channels == 3 && format_ != ENDCAP_GRAY) return format_;
    throw std::invalid_argument(::dali::make_string(
        "sample ", sample, " of images has ", channels, " channels: give ",
        format_ == ENDCAP_GRAY ? "1 with image_type=types.GRAY" : "3, or 1 for gray"));
  }

  int32_t format_;
};

class ResizeNormalizeCpu : public ResizeNormalize {
 public:
  explicit ResizeNormalizeCpu(const ::dali::OpSpec& spec) : ResizeNormalize(spec, false) {}
};

class ResizeNormalizeGpu : public ResizeNormalize {
 public:
  explicit ResizeNormalizeGpu(const ::dali::OpSpec& spec) : ResizeNormalize(spec, true) {}
};

}  // namespace

DALI_REGISTER_OPERATOR(endcap__ResizeNormalize, ResizeNormalizeCpu, ::dali::CPU);
DALI_REGISTER_OPERATOR(endcap__ResizeNormalize, ResizeNormalizeGpu, ::dali::GPU);

DALI_SCHEMA(endcap__ResizeNormalize)
    .DocStr(
        R"(Decoded images to the tensors that a model takes, so that DALI's decoders can go before.

Fits to a size, resizes and normalises, as ``fn.endcap.preprocess`` does after decoding. EXIF
orientation is the decoder's business: the geometry's is 1.

Returns three outputs, as ``fn.endcap.preprocess``: ``images``, ``geometry`` and ``status``.)")
    .NumInput(1)
    .NumOutput(3)
    .InputDox(0, "images", "TensorList of uint8 (\"HWC\")", "Images of 3 channels, or 1 for gray.")
    .InputLayout(0, "HWC")
    .AddParent("endcap__ImageParameters")
    .AddOptionalArg("image_type", "what 3 channels hold: types.RGB or BGR; GRAY admits only gray",
                    ::dali::DALI_RGB)
    .MakeStateless();

}  // namespace endcap::operators
