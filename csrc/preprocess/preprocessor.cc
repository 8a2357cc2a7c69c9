#include "common/fail.h"
#include "endcap/preprocess.h"
#include "preprocess/image_to_tensor.h"
#include "preprocess/preprocess_output.h"

namespace endcap {
namespace {

void CheckCpuDecoder(JpegDecoder decoder) {
  if (decoder == JpegDecoder::kHybrid || decoder == JpegDecoder::kNvjpeg) {
    Fail(ErrorCode::kUnsupported,
         "jpeg_decoder hybrid and nvjpeg need a GPU: give auto or cpu, or run on a CUDA device");
  }
}

PreprocessItem RunItem(const PreprocessParams& params, const ImageView& image,
                       const PreprocessOutput& output) noexcept {
  PreprocessItem item;
  try {
    item.decode_ns = ImageToTensor(params, image, output);
    if (image.format == PixelFormat::kEncoded) item.decoder = JpegDecoder::kCpu;
  } catch (...) {
    item.status = MakeStatusFromCurrentException();
    WriteBlank(output);
  }
  WriteStatus(output, item.status);
  return item;
}

}  // namespace

std::vector<TensorSpec> PreprocessOutputs(const PreprocessParams& params) {
  TensorSpec images{"images", params.dtype, {params.channels(), params.height, params.width}, 3};
  if (params.layout == Layout::kNhwc) {
    images.shape = {params.height, params.width, params.channels()};
  }
  return {images,
          {"geometry", DType::kFloat32, {Geometry::kSize}, 1},
          {"status", DType::kInt32, {1}, 1}};
}

Preprocessor::Preprocessor(const PreprocessParams& params, int threads)
    : params_((Validate(params), CheckCpuDecoder(params.jpeg_decoder), params)), pool_(threads) {}

std::vector<PreprocessItem> Preprocessor::Run(std::span<const ImageView> images,
                                              std::span<const PreprocessOutput> outputs) {
  if (images.size() != outputs.size()) {
    FailArgument(images.size(), " images came with ", outputs.size(), " outputs");
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].image.data != nullptr) CheckHostOutput(params_, outputs[i].image, i);
  }
  std::vector<PreprocessItem> items(images.size());
  pool_.ParallelFor(static_cast<int>(images.size()), [&](int i) {
    const auto index = static_cast<size_t>(i);
    items[index] = RunItem(params_, images[index], outputs[index]);
  });
  return items;
}

}  // namespace endcap
