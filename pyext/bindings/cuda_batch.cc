#include "bindings/cuda_batch.h"

#include "endcap/geometry.h"

namespace endcap::python {
namespace {

int64_t CountRows(py::handle array) {
  if (py::isinstance<CudaTensor>(array)) {
    const auto& tensor = py::cast<const CudaTensor&>(array);
    return tensor.shape.empty() ? -1 : tensor.shape[0];
  }
  const auto host = py::cast<py::array>(array);
  return host.ndim() < 1 ? -1 : host.shape(0);
}

}  // namespace

void FailRows() {
  throw Error(ErrorCode::kInvalidArgument, "head, geometry [B,8] and status [B] differ in B");
}

CudaBatch::CudaBatch(const std::vector<CudaPart>& parts) {
  for (const CudaPart& part : parts) Add(part);
}

void CudaBatch::Add(const CudaPart& part) {
  const auto& [head, geometry, status, out, with_rle] = part;
  const int64_t rows = head.empty() ? -1 : CountRows(head[0]);
  if (rows < 0) FailRows();
  begin_ = inputs_.size();
  inputs_.resize(begin_ + static_cast<size_t>(rows));
  outputs_.resize(inputs_.size());
  for (PostprocessInput& input : Inputs()) input.head.reserve(head.size());
  for (PostprocessOutput& output : Outputs()) output.tensors.reserve(out.size());
  for (const py::handle tensor : head) AddHead(tensor);
  if (py::isinstance<CudaTensor>(geometry)) {
    AddGeometry(py::cast<const CudaTensor&>(geometry));
  } else if (py::isinstance<py::array_t<float>>(geometry)) {
    AddGeometry(py::reinterpret_borrow<py::array_t<float>>(geometry));
  }
  if (status && status->size() != 0) AddStatus(*status);
  for (const std::optional<CudaTensor>& tensor : out) AddOutput(tensor);
  results_.Add(Outputs(), with_rle);
}

void CudaBatch::RequireRows(int64_t rows) const {
  if (std::cmp_not_equal(rows, inputs_.size() - begin_)) FailRows();
}

void CudaBatch::AddHead(py::handle tensor) {
  RequireRows(CountRows(tensor));
  int64_t item = 0;
  if (py::isinstance<CudaTensor>(tensor)) {
    const auto& on_device = py::cast<const CudaTensor&>(tensor);
    for (PostprocessInput& input : Inputs()) input.head.push_back(ItemView(on_device, item++));
    targets_.push_back(on_device.target);
    return;
  }
  const auto array = py::cast<py::array>(tensor);
  for (PostprocessInput& input : Inputs()) input.head.push_back(ItemView(array, item++));
}

void CudaBatch::AddGeometry(const CudaTensor& geometry) {
  RequireRows(geometry.shape.empty() ? -1 : geometry.shape[0]);
  int64_t item = 0;
  for (PostprocessInput& input : Inputs()) {
    const ConstTensorView view = ItemView(geometry, item++);
    if (view.dtype != DType::kFloat32 || view.size() != Geometry::kSize) FailRows();
    input.geometry = static_cast<const float*>(view.data);
    input.geometry_device = Device::kCuda;
  }
  targets_.push_back(geometry.target);
}

void CudaBatch::AddGeometry(const py::array_t<float>& geometry) {
  RequireRows(geometry.size() / Geometry::kSize);
  const float* row = geometry.data();
  for (PostprocessInput& input : Inputs()) {
    input.geometry = row;
    row += Geometry::kSize;
  }
}

void CudaBatch::AddStatus(const py::array_t<int32_t>& status) {
  RequireRows(status.size());
  const int32_t* row = status.data();
  for (PostprocessInput& input : Inputs()) input.status = *row++;
}

void CudaBatch::AddOutput(const std::optional<CudaTensor>& out) {
  if (!out) {
    for (PostprocessOutput& output : Outputs()) output.tensors.emplace_back();
    return;
  }
  RequireRows(out->shape.empty() ? -1 : out->shape[0]);
  int64_t item = 0;
  for (PostprocessOutput& output : Outputs()) {
    output.tensors.push_back(MutableItemView(*out, item++));
  }
  targets_.push_back(out->target);
}

}  // namespace endcap::python
