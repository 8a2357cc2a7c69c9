#include "bindings/head_call.h"

#include <algorithm>

#include "bindings/buffer_pool.h"
#include "bindings/gil.h"

namespace endcap::python {
namespace {

py::dtype NumpyDtype(DType dtype) {
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
    return PooledArray(NumpyDtype(spec.dtype), shape);
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

}  // namespace

py::tuple CallHead(Postprocessor& postprocessor, std::vector<py::array> head,
                   std::optional<Dense> geometry, std::optional<StatusRows> status,
                   bool with_packed_masks) {
  const py::ssize_t count = head.empty() || head[0].ndim() < 1 ? 0 : head[0].shape(0);
  const std::span<const TensorSpec> specs = postprocessor.outputs();
  py::tuple results(specs.size());
  std::vector<std::optional<py::array>> out(specs.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].name != "detection_masks" || with_packed_masks) {
      out[i] = NewRows(specs[i], count);
      results[i] = WithoutAxis(specs[i], *out[i]);
    } else {
      results[i] = py::none();
    }
  }
  std::vector<HeadPart> parts;
  parts.emplace_back(std::move(head), std::move(geometry), std::move(status), std::move(out),
                     GivesRle(postprocessor.params()));
  const HeadBatch batch(parts);
  std::vector<PostprocessItem> items;
  {
    const ReleasedGil released;
    items = postprocessor.Run(batch.inputs(), batch.outputs());
  }
  ThrowFirst(items);
  py::array_t<bool> truncated(count);
  for (py::ssize_t i = 0; i < count; ++i) {
    truncated.mutable_at(i) = items[static_cast<size_t>(i)].truncated;
  }
  return py::make_tuple(std::move(results), std::move(truncated),
                        batch.results().RunLengths().front());
}

}  // namespace endcap::python
