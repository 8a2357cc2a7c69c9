#include <cstring>

#include "common/fail.h"
#include "endcap/preprocess.h"
#include "preprocess/image_to_tensor.h"
#include "preprocess/preprocess_output.h"

namespace endcap {
namespace {

void CheckOutput(const PreprocessParams& params, const TensorView& view, size_t item) {
  CheckOutputShape(params, view, item);
  if (view.device != Device::kCpu) {
    Fail(ErrorCode::kUnsupported, "output ", item,
         " is in GPU memory; this build writes CPU memory only");
  }
}

void CheckCpuDecoder(JpegDecoder decoder) {
  if (decoder == JpegDecoder::kHybrid || decoder == JpegDecoder::kNvjpeg) {
    Fail(ErrorCode::kUnsupported,
         "jpeg_decoder hybrid and nvjpeg need a GPU: give auto or cpu, or run on a CUDA device");
  }
}

// What a failed image leaves behind.
void WriteBlank(const PreprocessOutput& output) {
  std::memset(output.image.data, 0, output.image.size_bytes());
  WriteGeometry(output, BlankGeometry(output));
}

PreprocessItem RunItem(const PreprocessParams& params, const ImageView& image,
                       const PreprocessOutput& output) noexcept {
  PreprocessItem item;
  try {
    item.decode_ns = ImageToTensor(params, image, output);
    if (image.format == PixelFormat::kEncoded) item.decoder = JpegDecoder::kCpu;
  } catch (...) {
    item.status = StatusOfCurrentException();
    WriteBlank(output);
  }
  if (output.status != nullptr) *output.status = static_cast<int32_t>(item.status.code);
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
  for (size_t i = 0; i < outputs.size(); ++i) CheckOutput(params_, outputs[i].image, i);
  std::vector<PreprocessItem> items(images.size());
  pool_.ParallelFor(static_cast<int>(images.size()), [&](int i) {
    const auto index = static_cast<size_t>(i);
    items[index] = RunItem(params_, images[index], outputs[index]);
  });
  return items;
}

}  // namespace endcap
