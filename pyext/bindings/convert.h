#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "bindings/image_array.h"
#include "endcap/cuda.h"
#include "endcap/error.h"
#include "endcap/image_view.h"
#include "endcap/params.h"
#include "endcap/tensor_view.h"

namespace endcap::python {

namespace py = pybind11;

// Images that Python owns, seen as views; the buffers are held until this goes.
class BorrowedImages {
 public:
  // images: buffers of uint8; 1-D is encoded, 2-D gray pixels, 3-D interleaved pixels in `format`;
  // the only one may be 4-D, which is a batch of as many images. A CudaTensor is pixels, too. A
  // tuple is pixels in YUV: layout, planes, matrix, range, as MakeYuvView has them.
  BorrowedImages(const py::list& images, PixelFormat format);
  std::span<const ImageView> views() const noexcept { return views_; }
  // The only image. Throws kInvalidArgument where there is none, or a batch.
  const ImageView& OnlyView() const;
  // Where the images that are device memory come from.
  const std::vector<CudaTarget>& cuda_targets() const noexcept { return cuda_targets_; }

 private:
  ImageArray Borrow(py::handle array);
  void AddBatch(const ImageArray& batch, PixelFormat format);

  std::vector<py::buffer_info> buffers_;
  std::vector<ImageView> views_;
  std::vector<CudaTarget> cuda_targets_;
};

PixelFormat ReadPixelFormat(const std::string& name);

// The core's name for NumPy's kind and size of an element. Throws kInvalidArgument.
DType ToDType(char kind, int64_t item_bytes);

// A GPU by its number, or the CPU for none.
inline DeviceId ToDeviceId(std::optional<int> device_id) {
  return device_id ? DeviceId{Device::kCuda, *device_id} : DeviceId{};
}

// All elements of a C-contiguous array.
template <typename T, int Flags>
std::span<const T> AsSpan(const py::array_t<T, Flags>& array) {
  return {array.data(), static_cast<size_t>(array.size())};
}

template <typename T>
py::array_t<T> ToArray(const std::vector<T>& values) {
  return py::array_t<T>(static_cast<py::ssize_t>(values.size()), values.data());
}

py::list ToBytes(const std::vector<std::string>& strings);

struct CudaTensor;

// A tensor whose first axis is a batch: a NumPy array, or a CudaTensor, which must outlive it.
class BatchTensor {
 public:
  // Throws TypeError for anything else.
  explicit BatchTensor(const py::object& tensor);

  // The items of the batch; -1 for a tensor without axes.
  int64_t rows() const;
  // Null for a NumPy array.
  const CudaTensor* cuda() const noexcept { return cuda_; }

  // One item for the core, without the first axis. Throws kInvalidArgument for a tensor that is not
  // C-contiguous, or of a dtype that the core has not.
  ConstTensorView Item(int64_t item) const;
  TensorView MutableItem(int64_t item);

 private:
  std::span<const int64_t> shape() const;
  template <typename View>
  View DescribeItem() const;

  const CudaTensor* cuda_ = nullptr;
  py::array array_ = py::reinterpret_steal<py::array>(py::handle());
};

// (name, dtype, shape) of every tensor; -1 where a dimension is known only at run time.
using SpecTuple = std::tuple<std::string, std::string, std::vector<int64_t>>;
std::vector<SpecTuple> SpecTuples(const std::vector<TensorSpec>& specs);

// (name, meaning, allowed, value) of every parameter.
using ParameterTuple = std::tuple<std::string, std::string, std::string, std::string>;
std::vector<ParameterTuple> ParameterTuples(const std::vector<ParameterInfo>& table);

}  // namespace endcap::python
