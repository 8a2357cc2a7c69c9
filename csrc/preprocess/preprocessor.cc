#include <optional>
#include <utility>
#include <vector>

#include "common/fail.h"
#include "endcap/decode.h"
#include "endcap/preprocess.h"
#include "preprocess/device.h"
#include "preprocess/preprocess_output.h"

namespace endcap {
namespace {

void CheckRegions(const PreprocessParams& params, const PreprocessInput& input, size_t count) {
  if (count != input.outputs.size()) {
    FailArgument(count, " rois came with ", input.outputs.size(), " outputs");
  }
  CheckRoiTensors(params, static_cast<int64_t>(count));
  static_cast<void>(WantsTensors(input));
}

// Base64 text as the file in it, which `files` then holds, and a Y4M file as the planes in it. What
// is refused stays as it was, and fails when its header is read again.
ImageView ViewContent(const PreprocessParams& params, ImageView image,
                      std::vector<std::vector<uint8_t>>& files) {
  try {
    if (params.base64 == Base64::kAccept) {
      if (auto file = DecodeBase64(image, params.limits)) {
        image = ImageView::Encoded(file->data(), file->size());
        files.push_back(std::move(*file));
      }
    }
    return ViewY4mPlanes(image, params.limits).value_or(image);
  } catch (const Error&) {
    return image;
  }
}

// The inputs with what is in their images, see ViewContent; nothing where all stay as they were.
std::vector<PreprocessInput> ViewContents(const PreprocessParams& params,
                                          std::span<const PreprocessInput> inputs,
                                          std::vector<std::vector<uint8_t>>& files) {
  std::vector<PreprocessInput> viewed;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ImageView content = ViewContent(params, inputs[i].image, files);
    if (content.planes[0].data == inputs[i].image.planes[0].data) continue;
    if (viewed.empty()) viewed.assign(inputs.begin(), inputs.end());
    viewed[i].image = content;
  }
  return viewed;
}

// The first region that failed fails the image, unless the image failed itself.
void SetStatusFromRegions(PreprocessItem& item) {
  for (const ItemStatus& status : item.rois) {
    if (!item.status.ok()) return;
    item.status = status;
  }
}

const char* RegionsText(const PreprocessParams& params) {
  return params.slices() ? " tiles" : " rois";
}

const char* FewerRegionsText(const PreprocessParams& params) {
  return params.slices() ? "give a greater tile" : "give rois in several calls";
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

void CheckRoiCount(const PreprocessParams& params, int64_t count) {
  if (count > params.max_rois) {
    FailArgument("the image came with ", count, RegionsText(params), "; max_rois allows ",
                 params.max_rois, ": ", FewerRegionsText(params), ", or a greater max_rois");
  }
}

void CheckRoiTensors(const PreprocessParams& params, int64_t count) {
  CheckRoiCount(params, count);
  const TensorSpec spec = PreprocessOutputs(params)[0];
  const TensorView tensor{nullptr, spec.dtype, spec.shape, spec.rank};
  // Both are small enough for their product.
  const int64_t bytes = count * static_cast<int64_t>(tensor.size_bytes());
  if (bytes > params.max_roi_bytes) {
    FailArgument("the tensors of ", count, RegionsText(params), " take ", bytes,
                 " bytes; max_roi_bytes allows ", params.max_roi_bytes, ": ",
                 FewerRegionsText(params), ", or a greater max_roi_bytes");
  }
}

Preprocessor::Preprocessor(const PreprocessParams& params, DeviceId device, int threads)
    : params_((Validate(params), params)),
      device_(device),
      engine_(device.type == Device::kCpu ? MakeCpuPreprocess(params, threads)
                                          : MakeCudaPreprocess(params, device.id, threads)) {}

Preprocessor::Preprocessor(const PreprocessParams& params, int threads)
    : Preprocessor(params, DeviceId{}, threads) {}

Preprocessor::~Preprocessor() = default;

int Preprocessor::threads() const noexcept { return engine_->threads(); }

std::vector<PreprocessItem> Preprocessor::Run(std::span<const ImageView> images,
                                              std::span<const PreprocessOutput> outputs,
                                              void* stream) {
  if (images.size() != outputs.size()) {
    FailArgument(images.size(), " images came with ", outputs.size(), " outputs");
  }
  std::vector<PreprocessInput> inputs;
  inputs.reserve(images.size());
  for (size_t i = 0; i < images.size(); ++i) {
    inputs.push_back({images[i], std::nullopt, outputs.subspan(i, 1)});
  }
  return Run(inputs, stream);
}

std::vector<PreprocessItem> Preprocessor::Run(std::span<const PreprocessInput> inputs,
                                              void* stream) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const PreprocessInput& input = inputs[i];
    if (params_.slices() && !input.rois) {
      FailArgument("image ", i, " came without its tiles as rois: give tile=0");
    } else if (input.rois) {
      CheckRegions(params_, input, input.rois->size());
    } else if (input.outputs.size() != 1) {
      FailArgument("image ", i, " came with ", input.outputs.size(), " outputs: give one");
    }
    for (size_t k = 0; k < input.outputs.size(); ++k) {
      const TensorView& tensor = input.outputs[k].image;
      if (tensor.data != nullptr) CheckOutput(params_, tensor, device_, input.rois ? k : i);
    }
  }
  if (inputs.empty()) return {};
  std::vector<std::vector<uint8_t>> files;
  const std::vector<PreprocessInput> viewed = ViewContents(params_, inputs, files);
  std::vector<PreprocessItem> items = engine_->Run(viewed.empty() ? inputs : viewed, stream);
  for (PreprocessItem& item : items) SetStatusFromRegions(item);
  return items;
}

}  // namespace endcap
