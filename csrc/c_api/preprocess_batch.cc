#include "c_api/preprocess_batch.h"

#include <algorithm>

#include "c_api/last_call.h"
#include "common/fail.h"

namespace endcap::c_api {
namespace {

static_assert(static_cast<int32_t>(PixelFormat::kEncoded) == ENDCAP_ENCODED);
static_assert(static_cast<int32_t>(PixelFormat::kRgb) == ENDCAP_RGB);
static_assert(static_cast<int32_t>(PixelFormat::kBgr) == ENDCAP_BGR);
static_assert(static_cast<int32_t>(PixelFormat::kGray) == ENDCAP_GRAY);

// The images of one size, which an engine takes together.
struct SizeGroup {
  TensorSize size;
  std::vector<size_t> positions;  // in the caller's arrays
  std::vector<ImageView> images;
  std::vector<PreprocessOutput> outputs;
};

SizeGroup& FindOrAddGroup(std::vector<SizeGroup>& groups, TensorSize size) {
  const auto known = std::ranges::find(groups, size, &SizeGroup::size);
  return known != groups.end() ? *known : groups.emplace_back(SizeGroup{size, {}, {}, {}});
}

}  // namespace

TensorSize ReadSize(const PreprocessParams& params, int32_t height, int32_t width) {
  if (height == 0 && width == 0) return {params.height, params.width};
  return {height, width};
}

PreprocessOutput ReadOutput(const SizedEngines& engines, const endcap_preprocess_output& output,
                            size_t i) {
  const TensorSize size = ReadSize(engines.params(), output.height, output.width);
  PreprocessParams params;
  try {
    params = engines.MakeParams(size);
  } catch (const Error& error) {
    Fail(error.code(), "output ", i, ": ", error.what());
  }
  const TensorSpec spec = PreprocessOutputs(params)[0];
  PreprocessOutput written;
  written.image.data = output.tensor;
  written.image.dtype = spec.dtype;
  written.image.shape = spec.shape;
  written.image.rank = spec.rank;
  written.image.device = engines.device().type;
  written.image.device_id = engines.device().id;
  if (output.tensor == nullptr) FailArgument("the tensor of output ", i, " is NULL");
  if (output.tensor_bytes != written.image.size_bytes()) {
    FailArgument("the tensor of output ", i, " has ", output.tensor_bytes,
                 " bytes: ", DTypeName(spec.dtype), " [", spec.shape[0], ", ", spec.shape[1], ", ",
                 spec.shape[2], "] takes ", written.image.size_bytes());
  }
  written.geometry = output.geometry;
  written.status = output.status;
  written.source_index = output.source_index;
  return written;
}

ImageView ReadImage(const SizedEngines& engines, const endcap_image& image, size_t i) {
  if (image.format < ENDCAP_ENCODED || image.format > ENDCAP_GRAY) {
    FailArgument("image ", i, " has format ", image.format, ": give ", int{ENDCAP_ENCODED}, " to ",
                 int{ENDCAP_GRAY}, ", an endcap_pixel_format");
  }
  const bool encoded = image.format == ENDCAP_ENCODED;
  if (image.on_gpu != 0 && (encoded || engines.device().type == Device::kCpu)) {
    FailArgument("image ", i, " is in GPU memory: give ",
                 encoded ? "encoded bytes" : "what a handle for the CPU works on",
                 " in CPU memory");
  }
  if (encoded) {
    if (image.size_bytes > 0 && image.data == nullptr) FailArgument("image ", i, " has no data");
    return ImageView::Encoded(image.data, image.size_bytes);
  }
  if (image.data == nullptr && image.width > 0 && image.height > 0) {
    FailArgument("the data of image ", i, " is NULL: give the pixels of its ", image.width, " x ",
                 image.height);
  }
  ImageView view =
      ImageView::Interleaved(static_cast<PixelFormat>(image.format), image.data, image.width,
                             image.height, static_cast<ptrdiff_t>(image.row_stride_bytes));
  if (image.on_gpu != 0) {
    view.device = Device::kCuda;
    view.device_id = engines.device().id;
  }
  return view;
}

std::vector<std::string> RunBatch(SizedEngines& engines, std::span<const endcap_image> images,
                                  std::span<const endcap_preprocess_output> outputs, void* stream) {
  std::vector<SizeGroup> groups;
  for (size_t i = 0; i < images.size(); ++i) {
    const endcap_preprocess_output& output = outputs[i];
    SizeGroup& group =
        FindOrAddGroup(groups, ReadSize(engines.params(), output.height, output.width));
    group.positions.push_back(i);
    group.images.push_back(ReadImage(engines, images[i], i));
    group.outputs.push_back(ReadOutput(engines, output, i));
  }
  std::vector<std::string> messages(images.size());
  for (const SizeGroup& group : groups) {
    std::vector<PreprocessItem> items =
        engines.Get(group.size)->Run(group.images, group.outputs, stream);
    std::vector<std::string> said = TakeMessages(items);
    for (size_t k = 0; k < said.size(); ++k) messages[group.positions[k]] = std::move(said[k]);
  }
  return messages;
}

}  // namespace endcap::c_api
