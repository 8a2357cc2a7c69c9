#include "bls/answer.h"

#include <span>
#include <string>

#include "bls/contracts.h"
#include "bls/detections_of.h"
#include "triton_util/data_type.h"
#include "triton_util/output_staging.h"
#include "triton_util/string_tensor.h"

namespace endcap::triton {
namespace {

std::span<CascadeImage> GetImages(CascadeJob& job, const CascadeRequest& request) {
  return std::span(job.images).subspan(request.first_image, request.image_count);
}

// Adds an output whose items have that shape, and writes their parts.
class Writer {
 public:
  Writer(CascadeRequest& request, const ExecutionContext& execution_context, bool batched)
      : request_(request), execution_context_(execution_context), batched_(batched) {}

  bool Wants(std::string_view name) const { return request_.pending.request.WantsOutput(name); }

  void Write(std::string_view name, TRITONSERVER_DataType type, std::vector<int64_t> shape,
             std::span<const std::span<const std::byte>> parts) {
    if (batched_) shape.insert(shape.begin(), static_cast<int64_t>(request_.image_count));
    size_t bytes = 0;
    for (const auto& part : parts) bytes += part.size();
    const OutputMemory memory = request_.pending.sink.AddOutput(name, type, shape, bytes, {});
    auto* to = static_cast<std::byte*>(memory.data);
    for (const auto& part : parts) {
      WriteOutput(part, to, memory.place, execution_context_);
      to += part.size();
    }
  }

 private:
  CascadeRequest& request_;
  const ExecutionContext& execution_context_;
  bool batched_;
};

// The shape of an output of the detections, which the images of a request must share.
const std::vector<int64_t>& CommonShape(std::span<const CascadeImage> images,
                                        std::string_view output, const CascadeSettings& settings) {
  const std::vector<int64_t>& shape = FindDetections(images.front(), output, settings).shape;
  for (const CascadeImage& image : images.subspan(1)) {
    if (FindDetections(image, output, settings).shape == shape) continue;
    throw InnerError(InnerFailure(settings.detect_model, TRITONSERVER_ERROR_INTERNAL,
                                  "gave output '" + std::string(output) +
                                      "' of different shapes for the images of one request"));
  }
  return shape;
}

void WriteDetections(Writer& writer, std::span<const CascadeImage> images,
                     const CascadeSettings& settings) {
  for (const TensorSpec& spec : kDetectionOutputs) {
    if (!writer.Wants(spec.name)) continue;
    const std::vector<int64_t>& shape = CommonShape(images, spec.name, settings);
    std::vector<std::span<const std::byte>> parts;
    parts.reserve(images.size());
    for (const CascadeImage& image : images) {
      const ItemTensor& tensor = FindDetections(image, spec.name, settings);
      parts.emplace_back(tensor.memory.data, tensor.memory.bytes);
    }
    writer.Write(spec.name, ToTriton(spec.dtype), shape, parts);
  }
}

// The classes of all rows of a request's images, one image after the other.
struct ClassColumns {
  std::vector<int32_t> ids;
  std::vector<float> scores;
  std::vector<std::byte> labels;
};

ClassColumns MakeClassColumns(std::span<const CascadeImage> images, size_t row_count) {
  ClassColumns columns;
  columns.ids.assign(images.size() * row_count, -1);
  columns.scores.assign(images.size() * row_count, 0.0F);
  std::vector<std::string_view> labels(images.size() * row_count);
  for (size_t i = 0; i < images.size(); ++i) {
    for (const RowClass& row : images[i].classes) {
      const size_t at = i * row_count + row.row;
      columns.ids[at] = row.class_id;
      columns.scores[at] = row.score;
      labels[at] = row.label;
    }
  }
  for (const std::string_view label : labels) AppendString(columns.labels, label);
  return columns;
}

void WriteClasses(Writer& writer, std::span<const CascadeImage> images,
                  const CascadeSettings& settings) {
  const std::vector<int64_t>& rows = CommonShape(images, "detection_classes", settings);
  const ClassColumns columns = MakeClassColumns(images, static_cast<size_t>(rows.front()));
  const auto write = [&](std::string_view name, TRITONSERVER_DataType type, auto values) {
    const std::span<const std::byte> bytes = std::as_bytes(values);
    if (writer.Wants(name)) writer.Write(name, type, rows, {&bytes, 1});
  };
  write(kClassIds, TRITONSERVER_TYPE_INT32, std::span(columns.ids));
  write(kClassScores, TRITONSERVER_TYPE_FP32, std::span(columns.scores));
  write(kClassLabels, TRITONSERVER_TYPE_BYTES, std::span(columns.labels));
}

}  // namespace

void WriteAnswer(CascadeJob& job, CascadeRequest& request,
                 const ExecutionContext& execution_context, bool batched) {
  Writer writer(request, execution_context, batched);
  const std::span<const CascadeImage> images = GetImages(job, request);
  WriteDetections(writer, images, *job.settings);
  if (request.wants_classes) WriteClasses(writer, images, *job.settings);
}

}  // namespace endcap::triton
