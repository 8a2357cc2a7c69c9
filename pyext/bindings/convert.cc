#include "bindings/convert.h"

#include <limits>

#include "bindings/cuda_tensor.h"

namespace endcap::python {
namespace {

// An array of an image, wherever it lies.
struct ImageArray {
  const void* data;
  int64_t item_bytes;
  std::span<const int64_t> shape;
  std::span<const int64_t> strides_bytes;
};

ImageView ViewOf(const ImageArray& array, PixelFormat format) {
  const auto* data = static_cast<const uint8_t*>(array.data);
  const std::span<const int64_t> shape = array.shape;
  const std::span<const int64_t> strides = array.strides_bytes;
  const auto fail = [](const std::string& what) -> ImageView {
    throw Error(ErrorCode::kInvalidArgument, what);
  };
  if (array.item_bytes != 1) return fail("an image must hold uint8 values");
  if (shape.size() == 1) {
    if (shape[0] > 1 && strides[0] != 1) return fail("encoded bytes must be contiguous");
    return ImageView::Encoded(data, static_cast<size_t>(shape[0]));
  }
  const int64_t channels = shape.size() == 3 ? shape[2] : 1;
  if ((shape.size() != 2 && shape.size() != 3) || (channels != 1 && channels != 3)) {
    return fail("an image must be 1-D (encoded), [H,W] (gray), [H,W,1] or [H,W,3], not " +
                std::to_string(shape.size()) + "-D with " + std::to_string(channels) + " channels");
  }
  const bool dense_pixels = shape[1] <= 1 || strides[1] == channels;
  const bool dense_channels = channels == 1 || strides[2] == 1;
  if (!dense_pixels || !dense_channels) return fail("the pixels of a row must be contiguous");
  const auto limit = static_cast<int64_t>(std::numeric_limits<int>::max());
  if (shape[0] > limit || shape[1] > limit) return fail("an image is too large");
  return ImageView::Interleaved(channels == 1 ? PixelFormat::kGray : format, data,
                                static_cast<int>(shape[1]), static_cast<int>(shape[0]),
                                static_cast<ptrdiff_t>(strides[0]));
}

ImageView ViewOf(const py::buffer_info& buffer, PixelFormat format) {
  const std::vector<int64_t> shape(buffer.shape.begin(), buffer.shape.end());
  const std::vector<int64_t> strides(buffer.strides.begin(), buffer.strides.end());
  return ViewOf(ImageArray{buffer.ptr, buffer.itemsize, shape, strides}, format);
}

ImageView ViewOf(const CudaTensor& tensor, PixelFormat format) {
  const std::vector<int64_t> strides = tensor.StridesBytes();
  ImageView view =
      ViewOf(ImageArray{tensor.data, tensor.item_bytes, tensor.shape, strides}, format);
  view.device = Device::kCuda;
  view.device_id = tensor.target.device_id;
  return view;
}

template <typename View>
View ViewWithoutData(const py::array& array) {
  View view;
  view.rank = static_cast<int>(array.ndim()) - 1;
  if (view.rank < 0 || view.rank > View::kMaxRank || (array.flags() & py::array::c_style) == 0) {
    throw Error(ErrorCode::kInvalidArgument,
                "an array must be C-contiguous, with a batch dimension and up to 4 others");
  }
  view.dtype = DtypeOf(array.dtype().kind(), array.itemsize());
  for (int i = 0; i < view.rank; ++i) view.shape[static_cast<size_t>(i)] = array.shape(i + 1);
  return view;
}

}  // namespace

BorrowedImages::BorrowedImages(const py::list& images, PixelFormat format) {
  buffers_.reserve(images.size());
  views_.reserve(images.size());
  for (const py::handle image : images) {
    if (py::isinstance<CudaTensor>(image)) {
      const auto& tensor = py::cast<const CudaTensor&>(image);
      views_.push_back(ViewOf(tensor, format));
      cuda_targets_.push_back(tensor.target);
      continue;
    }
    buffers_.push_back(py::cast<py::buffer>(image).request());
    views_.push_back(ViewOf(buffers_.back(), format));
  }
}

PixelFormat ReadPixelFormat(const std::string& name) {
  if (name == "rgb") return PixelFormat::kRgb;
  if (name == "bgr") return PixelFormat::kBgr;
  if (name == "gray") return PixelFormat::kGray;
  throw Error(ErrorCode::kInvalidArgument,
              "pixel_format is '" + name + "': give one of rgb, bgr, gray");
}

DType DtypeOf(char kind, int64_t item_bytes) {
  if (kind == 'f' && item_bytes == 4) return DType::kFloat32;
  if (kind == 'f' && item_bytes == 2) return DType::kFloat16;
  if (kind == 'i' && item_bytes == 4) return DType::kInt32;
  if (kind == 'i' && item_bytes == 1) return DType::kInt8;
  if (kind == 'u' && item_bytes == 1) return DType::kUint8;
  const py::dtype dtype(std::string(1, kind) + std::to_string(item_bytes));
  throw Error(ErrorCode::kInvalidArgument, "an array has dtype " + std::string(py::str(dtype)) +
                                               ": give float32, float16, int32, int8 or uint8");
}

ConstTensorView ItemView(const py::array& array, py::ssize_t item) {
  auto view = ViewWithoutData<ConstTensorView>(array);
  view.data =
      static_cast<const uint8_t*>(array.data()) + static_cast<size_t>(item) * view.size_bytes();
  return view;
}

TensorView MutableItemView(py::array& array, py::ssize_t item) {
  auto view = ViewWithoutData<TensorView>(array);
  view.data =
      static_cast<uint8_t*>(array.mutable_data()) + static_cast<size_t>(item) * view.size_bytes();
  return view;
}

std::vector<SpecTuple> SpecTuples(const std::vector<TensorSpec>& specs) {
  std::vector<SpecTuple> tuples;
  for (const TensorSpec& spec : specs) {
    tuples.emplace_back(spec.name, DTypeName(spec.dtype),
                        std::vector<int64_t>(spec.shape.begin(), spec.shape.begin() + spec.rank));
  }
  return tuples;
}

std::vector<ParameterTuple> ParameterTuples(const std::vector<ParameterInfo>& table) {
  std::vector<ParameterTuple> tuples;
  for (const ParameterInfo& row : table)
    tuples.emplace_back(row.name, row.meaning, row.allowed, row.value);
  return tuples;
}

}  // namespace endcap::python
