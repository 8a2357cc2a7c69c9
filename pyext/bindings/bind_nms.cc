#include <algorithm>

#include "bindings/bind.h"
#include "bindings/convert.h"
#include "endcap/nms.h"

namespace py = pybind11;

namespace endcap::python {
namespace {

template <typename T>
std::span<const T> SpanOf(const py::array_t<T>& array) {
  return {array.data(), static_cast<size_t>(array.size())};
}

// boxes [N,4] float32, scores [N] float32, class_ids [N] int32 or empty; C-contiguous.
py::array_t<int64_t> RunNms(const py::array_t<float>& boxes, const py::array_t<float>& scores,
                            const py::array_t<int32_t>& class_ids, double iou_threshold) {
  std::vector<int64_t> kept;
  {
    const auto boxes_span = SpanOf(boxes);
    const auto scores_span = SpanOf(scores);
    const auto classes_span = SpanOf(class_ids);
    const py::gil_scoped_release release;
    kept = Nms(boxes_span, scores_span, classes_span, {iou_threshold, -1});
  }
  return py::array_t<int64_t>(static_cast<py::ssize_t>(kept.size()), kept.data());
}

}  // namespace
}  // namespace endcap::python

void BindNms(py::module_& module) {
  module.def("nms", endcap::python::RunNms, py::arg("boxes").noconvert(),
             py::arg("scores").noconvert(), py::arg("class_ids").noconvert(),
             py::arg("iou_threshold"));
}
