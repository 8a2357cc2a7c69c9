#include "bindings/head_batch.h"

#include <algorithm>

#include "bindings/cuda_batch.h"
#include "endcap/geometry.h"

namespace endcap::python {

HeadBatch::HeadBatch(std::vector<HeadPart>& parts) {
  for (HeadPart& part : parts) Add(part);
}

void HeadBatch::Add(HeadPart& part) {
  auto& [head, geometry, status, out, with_rle] = part;
  const py::ssize_t count = head.empty() || head[0].ndim() < 1 ? -1 : head[0].shape(0);
  const auto has_rows = [count](const py::array& array) {
    return array.ndim() >= 1 && array.shape(0) == count;
  };
  const auto is_absent_or_has_rows = [&](const std::optional<py::array>& array) {
    return !array || has_rows(*array);
  };
  const bool has_geometry = geometry && geometry->size() != 0;
  const bool has_status = status && status->size() != 0;
  if (!std::all_of(head.begin(), head.end(), has_rows) ||
      !std::all_of(out.begin(), out.end(), is_absent_or_has_rows) ||
      (has_geometry && geometry->size() != count * Geometry::kSize) ||
      (has_status && status->size() != count)) {
    FailRows();
  }
  for (py::ssize_t i = 0; i < count; ++i) {
    PostprocessInput& input = inputs_.emplace_back();
    PostprocessOutput& output = outputs_.emplace_back();
    for (const py::array& tensor : head) input.head.push_back(ItemView(tensor, i));
    if (has_geometry) input.geometry = geometry->data() + i * Geometry::kSize;
    if (has_status) input.status = status->data()[i];
    for (std::optional<py::array>& tensor : out) {
      output.tensors.push_back(tensor ? MutableItemView(*tensor, i) : TensorView{});
    }
  }
  results_.Add(std::span(outputs_).last(static_cast<size_t>(count)), with_rle);
}

}  // namespace endcap::python
