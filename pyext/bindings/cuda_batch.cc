#include "bindings/cuda_batch.h"

#include "endcap/geometry.h"

namespace endcap::python {
namespace {

size_t RowsOf(const std::vector<CudaTensor>& out) {
  return out.empty() || out[0].shape.empty() ? 0 : static_cast<size_t>(out[0].shape[0]);
}

}  // namespace

void FailRows() {
  throw Error(ErrorCode::kInvalidArgument, "head, geometry [B,8] and status [B] differ in B");
}

CudaBatch::CudaBatch(const py::list& head, const py::object& geometry,
                     const py::array_t<int32_t>& status, const std::vector<CudaTensor>& out)
    : inputs_(RowsOf(out)), outputs_(inputs_.size()) {
  for (const py::handle part : head) AddHead(part);
  if (py::isinstance<CudaTensor>(geometry)) {
    AddGeometry(py::cast<const CudaTensor&>(geometry));
  } else if (py::isinstance<py::array_t<float>>(geometry)) {
    AddGeometry(py::reinterpret_borrow<py::array_t<float>>(geometry));
  }
  if (status.size() != 0) AddStatus(status);
  for (const CudaTensor& tensor : out) AddOutput(tensor);
}

void CudaBatch::RequireRows(int64_t rows) const {
  if (std::cmp_not_equal(rows, inputs_.size())) FailRows();
}

void CudaBatch::AddHead(py::handle part) {
  if (py::isinstance<CudaTensor>(part)) {
    const auto& tensor = py::cast<const CudaTensor&>(part);
    RequireRows(tensor.shape.empty() ? -1 : tensor.shape[0]);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      inputs_[i].head.push_back(ItemView(tensor, static_cast<int64_t>(i)));
    }
    targets_.push_back(tensor.target);
    return;
  }
  const auto array = py::cast<py::array>(part);
  RequireRows(array.ndim() < 1 ? -1 : array.shape(0));
  for (size_t i = 0; i < inputs_.size(); ++i) {
    inputs_[i].head.push_back(ItemView(array, static_cast<py::ssize_t>(i)));
  }
}

void CudaBatch::AddGeometry(const CudaTensor& geometry) {
  RequireRows(geometry.shape.empty() ? -1 : geometry.shape[0]);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const ConstTensorView view = ItemView(geometry, static_cast<int64_t>(i));
    if (view.dtype != DType::kFloat32 || view.size() != Geometry::kSize) FailRows();
    inputs_[i].geometry = static_cast<const float*>(view.data);
    inputs_[i].geometry_device = Device::kCuda;
  }
  targets_.push_back(geometry.target);
}

void CudaBatch::AddGeometry(const py::array_t<float>& geometry) {
  RequireRows(geometry.size() / Geometry::kSize);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    inputs_[i].geometry = geometry.data() + i * Geometry::kSize;
  }
}

void CudaBatch::AddStatus(const py::array_t<int32_t>& status) {
  RequireRows(status.size());
  for (size_t i = 0; i < inputs_.size(); ++i) inputs_[i].status = status.data()[i];
}

void CudaBatch::AddOutput(const CudaTensor& out) {
  RequireRows(out.shape.empty() ? -1 : out.shape[0]);
  for (size_t i = 0; i < outputs_.size(); ++i) {
    outputs_[i].tensors.push_back(MutableItemView(out, static_cast<int64_t>(i)));
  }
  targets_.push_back(out.target);
}

}  // namespace endcap::python
