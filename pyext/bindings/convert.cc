#include "bindings/convert.h"

#include <algorithm>

#include "bindings/cuda_tensor.h"

namespace endcap::python {
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

py::list ToBytes(const std::vector<std::string>& strings) {
  py::list bytes;
  for (const std::string& string : strings) bytes.append(py::bytes(string));
  return bytes;
}

BatchTensor::BatchTensor(const py::object& tensor) {
  if (py::isinstance<CudaTensor>(tensor)) {
    cuda_ = &py::cast<const CudaTensor&>(tensor);
  } else if (py::isinstance<py::array>(tensor)) {
    array_ = tensor;
  } else {
    throw py::type_error("a tensor is neither a NumPy array nor a CudaTensor");
  }
}

std::span<const int64_t> BatchTensor::shape() const {
  if (cuda_ != nullptr) return cuda_->shape;
  return {array_.shape(), static_cast<size_t>(array_.ndim())};
}

int64_t BatchTensor::rows() const { return shape().empty() ? -1 : shape()[0]; }

template <typename View>
View BatchTensor::DescribeItem() const {
  if (cuda_ != nullptr) RequireDense(*cuda_);
  View view;
  view.rank = static_cast<int>(shape().size()) - 1;
  const bool is_dense = cuda_ != nullptr || (array_.flags() & py::array::c_style) != 0;
  if (view.rank < 0 || view.rank > View::kMaxRank || !is_dense) {
    throw Error(ErrorCode::kInvalidArgument,
                "an array must be C-contiguous, with a batch dimension and up to 4 others");
  }
  std::ranges::copy(shape().subspan(1), view.shape.begin());
  if (cuda_ == nullptr) {
    view.dtype = ToDType(array_.dtype().kind(), array_.itemsize());
    return view;
  }
  view.dtype = ToDType(cuda_->kind, cuda_->item_bytes);
  view.device = Device::kCuda;
  view.device_id = cuda_->target.device_id;
  return view;
}

ConstTensorView BatchTensor::Item(int64_t item) const {
  auto view = DescribeItem<ConstTensorView>();
  const auto* first = cuda_ != nullptr ? cuda_->data : static_cast<const uint8_t*>(array_.data());
  view.data = first + static_cast<size_t>(item) * view.size_bytes();
  return view;
}

TensorView BatchTensor::MutableItem(int64_t item) {
  auto view = DescribeItem<TensorView>();
  auto* first = cuda_ != nullptr ? cuda_->data : static_cast<uint8_t*>(array_.mutable_data());
  view.data = first + static_cast<size_t>(item) * view.size_bytes();
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
