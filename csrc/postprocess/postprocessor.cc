#include <cmath>
#include <numeric>
#include <optional>

#include "common/fail.h"
#include "endcap/nms.h"
#include "endcap/postprocess.h"
#include "postprocess/output_rows.h"

namespace endcap {
namespace {

std::optional<Geometry> ReadGeometry(const float* values) {
  if (values == nullptr) return std::nullopt;
  for (int i = 0; i < Geometry::kSize; ++i) {
    if (!std::isfinite(values[i])) FailArgument("geometry is not finite at element ", i);
  }
  const Geometry geometry = Geometry::FromArray(values);
  if (geometry.scale_x <= 0.0F || geometry.scale_y <= 0.0F) {
    FailArgument("geometry has scales ", geometry.scale_x, " and ", geometry.scale_y,
                 ": both must be greater than 0");
  }
  if (geometry.image_w < 0.0F || geometry.image_h < 0.0F) {
    FailArgument("geometry has an image of ", geometry.image_w, "x", geometry.image_h, " pixels");
  }
  return geometry;
}

std::vector<int64_t> Suppress(const PostprocessParams& params, const Candidates& candidates) {
  if (NeedsNms(params.head.family)) {
    const std::span<const int32_t> classes =
        params.class_agnostic ? std::span<const int32_t>{} : candidates.class_ids;
    return Nms(candidates.boxes_xyxy, candidates.scores, classes,
               {params.iou_threshold, params.max_detections});
  }
  std::vector<int64_t> all(candidates.size());
  std::iota(all.begin(), all.end(), int64_t{0});
  return all;
}

void Detect(const PostprocessParams& params, const PostprocessInput& input,
            const PostprocessOutput& output, PostprocessItem& item) {
  const auto geometry = ReadGeometry(input.geometry);
  Candidates candidates;
  BoxDecode(params.head, input.head, candidates);
  const std::vector<int64_t> kept = Suppress(params, candidates);
  item.truncated = candidates.truncated;
  item.num_detections =
      WriteDetections(params, candidates, kept, geometry ? &*geometry : nullptr, output);
}

void ClassifyItem(const PostprocessParams& params, const PostprocessInput& input,
                  const PostprocessOutput& output) {
  if (input.head.size() != 1) {
    FailArgument("head classification came with ", input.head.size(), " tensors: it needs 1");
  }
  ClassScores classes;
  Classify(params.head, input.head[0], classes);
  WriteClasses(classes, output);
}

PostprocessItem RunItem(const PostprocessParams& params, const PostprocessInput& input,
                        const PostprocessOutput& output) noexcept {
  PostprocessItem item;
  WriteEmpty(params, output);
  WriteStatus(output, input.status);
  if (input.status != 0) return item;
  try {
    if (params.head.family == HeadFamily::kClassification) {
      ClassifyItem(params, input, output);
    } else {
      Detect(params, input, output, item);
    }
  } catch (...) {
    item = {};
    item.status = StatusOfCurrentException();
    WriteEmpty(params, output);
    WriteStatus(output, static_cast<int32_t>(item.status.code));
  }
  return item;
}

}  // namespace

std::vector<TensorSpec> PostprocessOutputs(const PostprocessParams& params) {
  const TensorSpec status{"status", DType::kInt32, {1}, 1};
  if (params.head.family == HeadFamily::kClassification) {
    const int64_t k = params.head.ResolvedTopK();
    return {{"class_scores", DType::kFloat32, {k}, 1},
            {"class_ids", DType::kInt32, {k}, 1},
            {"class_probabilities", DType::kFloat32, {params.head.num_classes}, 1},
            status};
  }
  const int64_t k = params.max_detections;
  return {{"num_detections", DType::kInt32, {1}, 1},
          {"detection_boxes", DType::kFloat32, {k, 4}, 2},
          {"detection_scores", DType::kFloat32, {k}, 1},
          {"detection_classes", DType::kInt32, {k}, 1},
          {"detection_indices", DType::kInt32, {k}, 1},
          status};
}

Postprocessor::Postprocessor(const PostprocessParams& params, int threads)
    : params_((Validate(params), params)), pool_(threads) {}

std::vector<PostprocessItem> Postprocessor::Run(std::span<const PostprocessInput> inputs,
                                                std::span<const PostprocessOutput> outputs) {
  if (inputs.size() != outputs.size()) {
    FailArgument(inputs.size(), " heads came with ", outputs.size(), " outputs");
  }
  for (size_t i = 0; i < outputs.size(); ++i) CheckOutputs(params_, outputs[i], i);
  std::vector<PostprocessItem> items(inputs.size());
  pool_.ParallelFor(static_cast<int>(inputs.size()), [&](int i) {
    const auto index = static_cast<size_t>(i);
    items[index] = RunItem(params_, inputs[index], outputs[index]);
  });
  return items;
}

}  // namespace endcap
