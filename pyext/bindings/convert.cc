#include "bindings/convert.h"

namespace endcap::python {
namespace {

ImageView ViewOf(const py::buffer_info& buffer, PixelFormat format) {
  const auto* data = static_cast<const uint8_t*>(buffer.ptr);
  const auto fail = [](const std::string& what) -> ImageView {
    throw Error(ErrorCode::kInvalidArgument, what);
  };
  if (buffer.itemsize != 1) return fail("an image must hold uint8 values");
  if (buffer.ndim == 1) {
    if (buffer.size > 1 && buffer.strides[0] != 1) return fail("encoded bytes must be contiguous");
    return ImageView::Encoded(data, static_cast<size_t>(buffer.size));
  }
  const py::ssize_t channels = buffer.ndim == 3 ? buffer.shape[2] : 1;
  if ((buffer.ndim != 2 && buffer.ndim != 3) || (channels != 1 && channels != 3)) {
    return fail("an image must be 1-D (encoded), [H,W] (gray), [H,W,1] or [H,W,3], not " +
                std::to_string(buffer.ndim) + "-D with " + std::to_string(channels) + " channels");
  }
  const bool dense_pixels = buffer.shape[1] <= 1 || buffer.strides[1] == channels;
  const bool dense_channels = channels == 1 || buffer.strides[2] == 1;
  if (!dense_pixels || !dense_channels) return fail("the pixels of a row must be contiguous");
  const auto limit = static_cast<py::ssize_t>(std::numeric_limits<int>::max());
  if (buffer.shape[0] > limit || buffer.shape[1] > limit) return fail("an image is too large");
  return ImageView::Interleaved(channels == 1 ? PixelFormat::kGray : format, data,
                                static_cast<int>(buffer.shape[1]),
                                static_cast<int>(buffer.shape[0]), buffer.strides[0]);
}

DType DtypeOf(const py::array& array) {
  const char kind = array.dtype().kind();
  const py::ssize_t bytes = array.itemsize();
  if (kind == 'f' && bytes == 4) return DType::kFloat32;
  if (kind == 'f' && bytes == 2) return DType::kFloat16;
  if (kind == 'i' && bytes == 4) return DType::kInt32;
  if (kind == 'i' && bytes == 1) return DType::kInt8;
  if (kind == 'u' && bytes == 1) return DType::kUint8;
  throw Error(ErrorCode::kInvalidArgument, "an array has dtype " +
                                               std::string(py::str(array.dtype())) +
                                               ": give float32, float16, int32, int8 or uint8");
}

template <typename View>
View ViewWithoutData(const py::array& array) {
  View view;
  view.rank = static_cast<int>(array.ndim()) - 1;
  if (view.rank < 0 || view.rank > View::kMaxRank || (array.flags() & py::array::c_style) == 0) {
    throw Error(ErrorCode::kInvalidArgument,
                "an array must be C-contiguous, with a batch dimension and up to 4 others");
  }
  view.dtype = DtypeOf(array);
  for (int i = 0; i < view.rank; ++i) view.shape[static_cast<size_t>(i)] = array.shape(i + 1);
  return view;
}

}  // namespace

BorrowedImages::BorrowedImages(const py::list& images, PixelFormat format) {
  buffers_.reserve(images.size());
  views_.reserve(images.size());
  for (const py::handle image : images) {
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
