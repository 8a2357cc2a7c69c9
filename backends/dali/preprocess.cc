// fn.endcap.preprocess: encoded bytes -> images, geometry, status.
#include <stdexcept>

#include "dali/core/format.h"
#include "images_operator.h"
#include "parameters.h"

namespace endcap::operators {
namespace {

using ::dali::CPUBackend;

constexpr uint8_t kNoBytes[1] = {};

class PreprocessOperator : public ImagesOperator {
 public:
  using ImagesOperator::ImagesOperator;

 protected:
  std::vector<endcap_image> ReadImages(const ::dali::Workspace& ws) const override {
    const auto& encoded = ws.Input<CPUBackend>(0);
    const int count = encoded.num_samples();
    if (count > 0 && (encoded.type() != DALI_UINT8 || encoded.sample_dim() != 1)) {
      throw std::invalid_argument(::dali::make_string(
          "encoded is ", ::dali::TypeTable::GetTypeInfo(encoded.type()).name(), " of ",
          encoded.sample_dim(), " dims: give the bytes of a file as a 1-D sample of uint8"));
    }
    std::vector<endcap_image> images(count);
    for (int i = 0; i < count; ++i) {
      endcap_image& image = images[i];
      image.format = ENDCAP_ENCODED;
      image.size_bytes = static_cast<size_t>(encoded.tensor_shape(i)[0]);
      image.data = image.size_bytes == 0 ? kNoBytes : encoded.tensor<uint8_t>(i);
    }
    return images;
  }
};

class PreprocessCpu : public PreprocessOperator {
 public:
  explicit PreprocessCpu(const ::dali::OpSpec& spec) : PreprocessOperator(spec, false) {}
};

class PreprocessMixed : public PreprocessOperator {
 public:
  explicit PreprocessMixed(const ::dali::OpSpec& spec) : PreprocessOperator(spec, true) {}
};

}  // namespace

DALI_REGISTER_OPERATOR(endcap__Preprocess, PreprocessCpu, ::dali::CPU);
DALI_REGISTER_OPERATOR(endcap__Preprocess, PreprocessMixed, ::dali::Mixed);

DALI_SCHEMA(endcap__Preprocess)
    .DocStr(
        R"(Files in memory to the tensors that a model takes, as ``endcap.preprocess`` makes them.

Decodes, fits to a size, resizes and normalises in one go; the numbers are those of
``endcap.preprocess`` with the same parameters, bit for bit.

Returns three outputs:

* ``images``: [C, H, W] with layout "CHW", or [H, W, C] with "HWC", of ``dtype``
* ``geometry``: float32 [8] = scale_x, scale_y, pad_x, pad_y, image_w, image_h, orientation, 0, by
  which ``fn.endcap.postprocess`` brings boxes back to the file's pixels
* ``status``: int32 [1], 0 or why the image is blank (``endcap.Status``)

With ``rois`` there is a row for each of a sample's N regions: [N, C, H, W], [N, 8] and [N].

Numbers are kept as float32 by DALI; what was written with up to 6 digits reaches endcap unchanged.)")
    .NumInput(1)
    .NumOutput(3)
    .InputDox(0, "encoded", "1D TensorList of uint8", "The bytes of one file a sample.")
    .InputDevice(0, ::dali::InputDevice::CPU)
    .AddParent("endcap__ImageParameters")
    .AddOptionalArg<std::string>("exif", PreprocessDoc("exif"), nullptr)
    .AddOptionalArg<std::string>("decode", PreprocessDoc("decode"), nullptr)
    .AddOptionalArg<std::string>("jpeg_decoder", PreprocessDoc("jpeg_decoder"), nullptr)
    .AddOptionalArg<int64_t>("max_pixels", PreprocessDoc("max_pixels"), nullptr)
    .AddOptionalArg<int64_t>("max_side", PreprocessDoc("max_side"), nullptr)
    .AddOptionalArg<int64_t>("max_bytes", PreprocessDoc("max_bytes"), nullptr)
    .AddOptionalArg<int64_t>("max_scans", PreprocessDoc("max_scans"), nullptr)
    .AddOptionalArg<int64_t>("max_coefficient_bytes", PreprocessDoc("max_coefficient_bytes"),
                             nullptr)
    .AddOptionalArg<int64_t>("max_decoded_bytes", PreprocessDoc("max_decoded_bytes"), nullptr)
    .AddOptionalArg<std::string>("formats", PreprocessDoc("formats"), nullptr)
    .AddOptionalArg<std::string>("base64", PreprocessDoc("base64"), nullptr)
    .AddOptionalArg<std::string>("alpha", PreprocessDoc("alpha"), nullptr)
    .AddOptionalArg<std::string>("truncated", PreprocessDoc("truncated"), nullptr)
    .AddOptionalArg<std::string>("damaged", PreprocessDoc("damaged"), nullptr)
    .MakeStateless();

}  // namespace endcap::operators
