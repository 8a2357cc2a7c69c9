#include <algorithm>
#include <optional>

#include "bindings/bind.h"
#include "bindings/buffer_pool.h"
#include "bindings/convert.h"
#include "bindings/gil.h"
#include "bindings/head_batch.h"
#include "endcap/postprocess.h"

namespace py = pybind11;

namespace endcap::python {
namespace {

bool Merges(const Postprocessor& postprocessor) {
  return postprocessor.params().merge != Merge::kNone;
}

// Returns (items, run-length encodings) of every part.
py::list Run(Postprocessor& postprocessor, const std::vector<HeadPart>& parts,
             StreamHandle stream) {
  const HeadBatch batch(parts, Merges(postprocessor));
  return batch.Results(batch.Run(postprocessor, stream));
}

void Enqueue(Postprocessor& postprocessor, const std::vector<HeadPart>& parts,
             StreamHandle stream) {
  HeadBatch(parts, Merges(postprocessor)).Enqueue(postprocessor, stream);
}

py::dtype ToNumpyDtype(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return py::dtype::of<float>();
    case DType::kInt32:
      return py::dtype::of<int32_t>();
    case DType::kUint8:
      return py::dtype::of<uint8_t>();
    default:
      throw Error(ErrorCode::kInternal, "an output is neither float32, int32 nor uint8");
  }
}

[[noreturn]] void FailMemory(const TensorSpec& spec, const std::vector<py::ssize_t>& shape) {
  throw Error(ErrorCode::kOutOfMemory,
              "a result of shape " + std::string(py::str(py::cast(shape))) + " and dtype " +
                  std::string(DTypeName(spec.dtype)) + " does not fit into memory");
}

py::array NewRows(const TensorSpec& spec, py::ssize_t count) {
  std::vector<py::ssize_t> shape = {count};
  shape.insert(shape.end(), spec.shape.begin(), spec.shape.begin() + spec.rank);
  try {
    return PooledArray(ToNumpyDtype(spec.dtype), shape);
  } catch (const std::bad_alloc&) {
    FailMemory(spec, shape);
  } catch (const py::error_already_set& error) {
    if (!error.matches(PyExc_ValueError)) throw;
    FailMemory(spec, shape);  // more elements than NumPy can count
  }
}

// [B,1] as [B], where a tensor has one value for each image.
py::array WithoutAxis(const TensorSpec& spec, const py::array& rows) {
  if (spec.name != "num_detections" && spec.name != "status") return rows;
  return py::array(rows.dtype(), {rows.shape(0)}, rows.data(), rows);
}

// B; 0 for tensors that HeadBatch refuses.
py::ssize_t CountArrayRows(const std::vector<py::object>& head) {
  if (head.empty() || !py::isinstance<py::array>(head[0])) return 0;
  const auto array = py::reinterpret_borrow<py::array>(head[0]);
  return array.ndim() < 1 ? 0 : array.shape(0);
}

void ThrowFirst(const std::vector<PostprocessItem>& items) {
  const auto bad = std::find_if(items.begin(), items.end(), [](const PostprocessItem& item) {
    return item.status.code != ErrorCode::kOk;
  });
  if (bad == items.end()) return;
  std::string place;
  if (items.size() > 1) {
    place = "image index " + std::to_string(bad - items.begin()) + " of " +
            std::to_string(items.size()) + ": ";
  }
  throw Error(bad->status.code, place + bad->status.message);
}

// One caller's heads to new NumPy arrays, on the CPU. head: the tensors of HeadInputs, each
// [B, ...]; with `merge`, B tiles of one image; geometry [B,8] or None; status [B] or None;
// with_packed_masks: whether detection_masks is wanted, where there is such an output.
//
// Returns (the tensors of PostprocessOutputs in their order, each [B, ...], num_detections and
// status [B], None where not wanted; truncated, bool [B]; dropped, int32 [B]; for each image the
// run-length encodings of its masks, none where the head has none).
//
// It is one call because several small ones from Python would take longer than the work on a usual
// head. Throws the error of the first bad item, and kOutOfMemory where the results do not fit into
// memory.
py::tuple CallHead(Postprocessor& postprocessor, std::vector<py::object> head, py::object geometry,
                   std::optional<StatusRows> status, bool with_packed_masks) {
  const py::ssize_t count = Merges(postprocessor) ? 1 : CountArrayRows(head);
  const std::span<const TensorSpec> specs = postprocessor.outputs();
  py::tuple results(specs.size());
  std::vector<py::object> out(specs.size(), py::none());
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].name != "detection_masks" || with_packed_masks) {
      const py::array rows = NewRows(specs[i], count);
      results[i] = WithoutAxis(specs[i], rows);
      out[i] = rows;
    } else {
      results[i] = py::none();
    }
  }
  std::vector<HeadPart> parts;
  parts.emplace_back(std::move(head), std::move(geometry), std::move(status), std::move(out),
                     GivesRle(postprocessor.params()));
  const HeadBatch batch(parts, Merges(postprocessor));
  const std::vector<PostprocessItem> items = batch.Run(postprocessor, /*stream=*/0);
  ThrowFirst(items);
  py::array_t<bool> truncated(count);
  py::array_t<int32_t> dropped(count);
  for (py::ssize_t i = 0; i < count; ++i) {
    truncated.mutable_at(i) = items[static_cast<size_t>(i)].truncated;
    dropped.mutable_at(i) = items[static_cast<size_t>(i)].dropped;
  }
  return py::make_tuple(std::move(results), std::move(truncated), std::move(dropped),
                        batch.RunLengths().front());
}

// The same for a semantic head: returns the map of each image, uint8 [H,W]; a part's outputs have
// other shapes. Throws the error of the first bad item.
py::list CallSemantic(Postprocessor& postprocessor, std::vector<py::object> head,
                      py::object geometry, std::optional<StatusRows> status) {
  std::vector<HeadPart> parts;
  std::vector<py::object> out(postprocessor.outputs().size(), py::none());
  parts.emplace_back(std::move(head), std::move(geometry), std::move(status), std::move(out),
                     /*with_rle=*/false);
  HeadBatch batch(parts, /*merges=*/false);
  py::list maps = batch.AllocateMaps(postprocessor.params());
  ThrowFirst(batch.Run(postprocessor, /*stream=*/0));
  return maps;
}

}  // namespace
}  // namespace endcap::python

void BindPostprocess(py::module_& module) {
  using endcap::Postprocessor;
  BindClass<Postprocessor>(module, "Postprocessor")
      .def(py::init([](const endcap::ParameterList& parameters, int threads,
                       std::optional<int> device_id) {
             const auto params = endcap::ParsePostprocessParams(parameters);
             const endcap::python::ReleasedGil released;
             return std::make_unique<Postprocessor>(params, endcap::python::ToDeviceId(device_id),
                                                    threads);
           }),
           py::arg("parameters"), py::arg("threads"), py::arg("device_id") = py::none())
      .def("run", endcap::python::Run, py::arg("parts").noconvert(), py::arg("stream") = 0)
      .def("enqueue", endcap::python::Enqueue, py::arg("parts").noconvert(), py::arg("stream") = 0)
      .def("__call__", endcap::python::CallHead, py::arg("head"), py::arg("geometry"),
           py::arg("status").noconvert(), py::arg("with_packed_masks"))
      .def("class_maps", endcap::python::CallSemantic, py::arg("head"), py::arg("geometry"),
           py::arg("status").noconvert())
      .def_property_readonly("threads", &Postprocessor::threads)
      .def_property_readonly(
          "parameters",
          [](const Postprocessor& self) {
            return endcap::python::ParameterTuples(DescribePostprocessParams(self.params()));
          })
      .def_property_readonly("inputs",
                             [](const Postprocessor& self) {
                               return endcap::python::SpecTuples(HeadInputs(self.params().head));
                             })
      .def_property_readonly("outputs", [](const Postprocessor& self) {
        return endcap::python::SpecTuples(PostprocessOutputs(self.params()));
      });
}
