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
template <typename T>
std::span<const T> AsSpan(const py::array_t<T>& array) {
  return {array.data(), static_cast<size_t>(array.size())};
}

// The memory of a C-contiguous array. `item` selects along the first axis, the batch; the view has
// the shape without it.
ConstTensorView ItemView(const py::array& array, py::ssize_t item);
TensorView MutableItemView(py::array& array, py::ssize_t item);

// (name, dtype, shape) of every tensor; -1 where a dimension is known only at run time.
using SpecTuple = std::tuple<std::string, std::string, std::vector<int64_t>>;
std::vector<SpecTuple> SpecTuples(const std::vector<TensorSpec>& specs);

// (name, meaning, allowed, value) of every parameter.
using ParameterTuple = std::tuple<std::string, std::string, std::string, std::string>;
std::vector<ParameterTuple> ParameterTuples(const std::vector<ParameterInfo>& table);

}  // namespace endcap::python
