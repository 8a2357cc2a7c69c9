#include <algorithm>

#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/gil.h"
#include "endcap/box_decode.h"
#include "endcap/postprocess.h"

namespace py = pybind11;

namespace endcap::python {
namespace {

// (boxes [N,4], scores [N], class_ids [N], indices [N], truncated, dropped); tensors have a batch
// of 1.
py::tuple BoxDecodeOne(const ParameterList& parameters, const std::vector<py::array>& tensors) {
  const PostprocessParams params = ParsePostprocessParams(parameters);
  std::vector<ConstTensorView> views;
  for (const py::array& tensor : tensors) views.push_back(BatchTensor(tensor).Item(0));
  Candidates candidates;
  {
    const ReleasedGil released;
    BoxDecode(params.head, views, candidates);
  }
  const auto count = static_cast<py::ssize_t>(candidates.size());
  py::array_t<float> boxes({count, py::ssize_t{4}});
  std::copy(candidates.boxes_xyxy.begin(), candidates.boxes_xyxy.end(), boxes.mutable_data());
  return py::make_tuple(boxes, ToArray(candidates.scores), ToArray(candidates.class_ids),
                        ToArray(candidates.indices), candidates.truncated, candidates.dropped);
}

}  // namespace
}  // namespace endcap::python

void BindBoxDecode(py::module_& module) {
  module.def("box_decode", endcap::python::BoxDecodeOne, py::arg("parameters"), py::arg("tensors"));
}
