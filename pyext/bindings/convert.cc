#include "bindings/convert.h"

#include "bindings/cuda_tensor.h"

namespace endcap::python {
namespace {

template <typename View>
View ViewWithoutData(const py::array& array) {
  View view;
  view.rank = static_cast<int>(array.ndim()) - 1;
  if (view.rank < 0 || view.rank > View::kMaxRank || (array.flags() & py::array::c_style) == 0) {
    throw Error(ErrorCode::kInvalidArgument,
                "an array must be C-contiguous, with a batch dimension and up to 4 others");
  }
  view.dtype = ToDType(array.dtype().kind(), array.itemsize());
  for (int i = 0; i < view.rank; ++i) view.shape[static_cast<size_t>(i)] = array.shape(i + 1);
  return view;
}

}  // namespace

BorrowedImages::BorrowedImages(const py::list& images, PixelFormat format) {
  views_.reserve(images.size());
  for (const py::handle image : images) {
    if (!py::isinstance<py::tuple>(image)) {
      ImageArray array = Borrow(image);
      if (images.size() == 1 && array.shape.size() == 4) {
        AddBatch(array, format);
      } else {
        views_.push_back(MakeView(array, format));
      }
      continue;
    }
    const auto [layout, planes, matrix, range] =
        py::cast<std::tuple<std::string, py::list, std::string, std::string>>(image);
    std::vector<ImageArray> arrays;
    for (const py::handle plane : planes) arrays.push_back(Borrow(plane));
    views_.push_back(MakeYuvView(arrays, {layout, matrix, range}));
  }
}

void BorrowedImages::AddBatch(const ImageArray& batch, PixelFormat format) {
  ImageArray image = batch;
  image.shape.erase(image.shape.begin());
  image.strides_bytes.erase(image.strides_bytes.begin());
  views_.reserve(static_cast<size_t>(batch.shape[0]));
  for (int64_t i = 0; i < batch.shape[0]; ++i) {
    image.data = batch.data + i * batch.strides_bytes[0];
    views_.push_back(MakeView(image, format));
  }
}

const ImageView& BorrowedImages::OnlyView() const {
  if (views_.size() != 1) {
    throw Error(ErrorCode::kInvalidArgument,
                std::to_string(views_.size()) + " images were given: give one");
  }
  return views_[0];
}

ImageArray BorrowedImages::Borrow(py::handle array) {
  if (py::isinstance<CudaTensor>(array)) {
    const auto& tensor = py::cast<const CudaTensor&>(array);
    cuda_targets_.push_back(tensor.target);
    return {tensor.data,           tensor.item_bytes, tensor.shape,
            tensor.StridesBytes(), Device::kCuda,     tensor.target.device_id};
  }
  const py::buffer_info& buffer = buffers_.emplace_back(py::cast<py::buffer>(array).request());
  return {static_cast<const uint8_t*>(buffer.ptr),
          buffer.itemsize,
          {buffer.shape.begin(), buffer.shape.end()},
          {buffer.strides.begin(), buffer.strides.end()}};
}

PixelFormat ReadPixelFormat(const std::string& name) {
  if (name == "rgb") return PixelFormat::kRgb;
  if (name == "bgr") return PixelFormat::kBgr;
  if (name == "gray") return PixelFormat::kGray;
  throw Error(ErrorCode::kInvalidArgument,
              "pixel_format is '" + name + "': give one of rgb, bgr, gray");
}

DType ToDType(char kind, int64_t item_bytes) {
  if (kind == 'f' && item_bytes == 4) return DType::kFloat32;
  if (kind == 'f' && item_bytes == 2) return DType::kFloat16;
  if (kind == 'i' && item_bytes == 4) return DType::kInt32;
  if (kind == 'i' && item_bytes == 8) return DType::kInt64;
  if (kind == 'i' && item_bytes == 1) return DType::kInt8;
  if (kind == 'u' && item_bytes == 1) return DType::kUint8;
  const py::dtype dtype(std::string(1, kind) + std::to_string(item_bytes));
  throw Error(ErrorCode::kInvalidArgument,
              "an array has dtype " + std::string(py::str(dtype)) +
                  ": give float32, float16, int32, int64, int8 or uint8");
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
