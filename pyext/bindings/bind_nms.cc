#include <optional>
#include <string>
#include <vector>

#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/cuda_tensor.h"
#include "bindings/gil.h"
#include "endcap/nms.h"

namespace py = pybind11;

namespace endcap::python {
namespace {

// boxes [N,4] float32, scores [N] float32, class_ids [N] int32 or empty; C-contiguous.
py::array_t<int64_t> RunNms(const py::array_t<float>& boxes, const py::array_t<float>& scores,
                            const py::array_t<int32_t>& class_ids, double iou_threshold) {
  return ToArray(WithoutGil(
      [&] { return Nms(AsSpan(boxes), AsSpan(scores), AsSpan(class_ids), {iou_threshold, -1}); }));
}

// boxes [N,5] float32, scores [N] float32, class_ids [N] int32 or empty; C-contiguous.
py::array_t<int64_t> RunNmsRotated(const py::array_t<float>& boxes,
                                   const py::array_t<float>& scores,
                                   const py::array_t<int32_t>& class_ids, double iou_threshold,
                                   const std::string& method, int64_t max_detections) {
  const RotatedNmsOptions options{iou_threshold, max_detections, ParseRotatedNms(method)};
  return ToArray(WithoutGil(
      [&] { return NmsRotated(AsSpan(boxes), AsSpan(scores), AsSpan(class_ids), options); }));
}

// a [N,5] float32, b [M,5] float32, iou [N,M] float32, which is written; C-contiguous.
void RunRotatedIou(const py::array_t<float>& a, const py::array_t<float>& b,
                   const std::string& method, py::array_t<float>& iou) {
  const RotatedNms parsed = ParseRotatedNms(method);
  const auto a_span = AsSpan(a);
  const auto b_span = AsSpan(b);
  const std::span<float> iou_span{iou.mutable_data(), static_cast<size_t>(iou.size())};
  const ReleasedGil released;
  RotatedIou(a_span, b_span, parsed, iou_span);
}

// The data of a C-contiguous tensor of `size` elements of T.
template <typename T>
const T* GetData(const CudaTensor& tensor, char kind, int64_t size, const char* shapes) {
  if (!tensor.strides_bytes.empty() || tensor.kind != kind || tensor.item_bytes != sizeof(T) ||
      tensor.size() != size) {
    throw Error(ErrorCode::kInvalidArgument,
                std::string("boxes, scores and class_ids must be C-contiguous ") + shapes);
  }
  return reinterpret_cast<const T*>(tensor.data);
}

// Arrays of one image in device memory.
struct CudaBoxes {
  const CudaTensor& boxes;
  const CudaTensor& scores;
  const std::optional<CudaTensor>& class_ids;
  int64_t numbers_per_box;
  const char* shapes;  // for an error
};

// `suppress` is NmsCuda or NmsRotatedCuda. Waits for the number of kept boxes.
template <typename Suppress, typename Options>
CudaTensor RunOnCuda(Suppress suppress, const CudaBoxes& from, const Options& options,
                     int device_id, StreamHandle stream, const py::object& stream_owner) {
  const int64_t count = from.scores.size();
  const auto* boxes_data =
      GetData<float>(from.boxes, 'f', from.numbers_per_box * count, from.shapes);
  const auto* scores_data = GetData<float>(from.scores, 'f', count, from.shapes);
  std::vector<CudaTarget> targets{from.boxes.target, from.scores.target};
  const int32_t* classes_data = nullptr;
  if (from.class_ids.has_value()) {
    classes_data = GetData<int32_t>(*from.class_ids, 'i', count, from.shapes);
    targets.push_back(from.class_ids->target);
  }
  const CudaTarget target{device_id, ToStream(stream)};
  // The indices, and behind them how many there are.
  const CudaTensor kept = EmptyCuda("<i8", {count + 1}, device_id, stream, stream_owner);
  int64_t kept_count = 0;
  {
    const ReleasedGil released;
    const StreamOrder order(std::move(targets), target);
    auto* indices = reinterpret_cast<int64_t*>(kept.data);
    suppress(boxes_data, scores_data, classes_data, count, options, device_id, target.stream,
             indices, indices + count);
    CopyCuda(&kept_count, indices + count, sizeof(kept_count), target);
    SynchronizeCuda(target);
  }
  if (kept_count < 0) throw Error(ErrorCode::kInvalidArgument, "scores hold NaN");
  return Rows(kept, 0, kept_count);
}

CudaTensor RunNmsCuda(const CudaTensor& boxes, const CudaTensor& scores,
                      const std::optional<CudaTensor>& class_ids, double iou_threshold,
                      int device_id, StreamHandle stream, const py::object& stream_owner) {
  const CudaBoxes from{boxes, scores, class_ids, 4, "float32 [N,4], float32 [N] and int32 [N]"};
  return RunOnCuda(NmsCuda, from, NmsOptions{iou_threshold, -1}, device_id, stream, stream_owner);
}

CudaTensor RunNmsRotatedCuda(const CudaTensor& boxes, const CudaTensor& scores,
                             const std::optional<CudaTensor>& class_ids, double iou_threshold,
                             const std::string& method, int64_t max_detections, int device_id,
                             StreamHandle stream, const py::object& stream_owner) {
  const CudaBoxes from{boxes, scores, class_ids, 5, "float32 [N,5], float32 [N] and int32 [N]"};
  const RotatedNmsOptions options{iou_threshold, max_detections, ParseRotatedNms(method)};
  return RunOnCuda(NmsRotatedCuda, from, options, device_id, stream, stream_owner);
}

}  // namespace
}  // namespace endcap::python

void BindNms(py::module_& module) {
  module.def("nms", endcap::python::RunNms, py::arg("boxes").noconvert(),
             py::arg("scores").noconvert(), py::arg("class_ids").noconvert(),
             py::arg("iou_threshold"));
  module.def("nms_rotated", endcap::python::RunNmsRotated, py::arg("boxes").noconvert(),
             py::arg("scores").noconvert(), py::arg("class_ids").noconvert(),
             py::arg("iou_threshold"), py::arg("method"), py::arg("max_detections"));
  module.def("rotated_iou", endcap::python::RunRotatedIou, py::arg("a").noconvert(),
             py::arg("b").noconvert(), py::arg("method"), py::arg("iou").noconvert());
  module.def("nms_cuda", endcap::python::RunNmsCuda, py::arg("boxes"), py::arg("scores"),
             py::arg("class_ids"), py::arg("iou_threshold"), py::arg("device_id"),
             py::arg("stream"), py::arg("stream_owner"));
  module.def("nms_rotated_cuda", endcap::python::RunNmsRotatedCuda, py::arg("boxes"),
             py::arg("scores"), py::arg("class_ids"), py::arg("iou_threshold"), py::arg("method"),
             py::arg("max_detections"), py::arg("device_id"), py::arg("stream"),
             py::arg("stream_owner"));
}
