#include "postprocess/outputs.h"

#include <algorithm>
#include <cstring>

#include "box_decode/families.h"
#include "common/fail.h"
#include "common/map_box.h"

namespace endcap {
namespace {

std::vector<TensorSpec> ClassOutputs(const HeadParams& head) {
  const int64_t k = head.ResolvedTopK();
  return {{"class_scores", DType::kFloat32, {k}, 1},
          {"class_ids", DType::kInt32, {k}, 1},
          {"class_probabilities", DType::kFloat32, {head.num_classes}, 1}};
}

std::vector<TensorSpec> ClassMapOutputs() {
  return {{"class_map", DType::kUint8, {-1, -1}, 2}, {"map_size", DType::kInt32, {2}, 1}};
}

std::vector<TensorSpec> DetectionOutputs(const PostprocessParams& params) {
  const int64_t k = params.max_detections;
  std::vector<TensorSpec> specs = {{"num_detections", DType::kInt32, {1}, 1},
                                   {"detection_boxes", DType::kFloat32, {k, 4}, 2},
                                   {"detection_scores", DType::kFloat32, {k}, 1},
                                   {"detection_classes", DType::kInt32, {k}, 1},
                                   {"detection_indices", DType::kInt32, {k}, 1}};
  const HeadParams& head = params.head;
  switch (GetFamily(head.family).extra) {
    case HeadExtra::kNone:
      break;
    case HeadExtra::kKeypoints:
      specs.push_back({"detection_keypoints", DType::kFloat32, {k, head.num_keypoints, 3}, 3});
      break;
    case HeadExtra::kAngle:
      specs.push_back({"detection_angles", DType::kFloat32, {k}, 1});
      break;
    case HeadExtra::kMaskCoefficients:
    case HeadExtra::kMaskLogits:
      specs.push_back({"mask_size", DType::kInt32, {2}, 1});
      if (params.mask_resolution != MaskResolution::kSource) {
        const MaskSize size = params.mask_resolution == MaskResolution::kInput
                                  ? MaskSize{head.input_height, head.input_width}
                                  : MaskSize{head.prototype_height, head.prototype_width};
        const auto row_bytes = static_cast<int64_t>(size.packed_row_bytes());
        specs.push_back({"detection_masks", DType::kUint8, {k, size.height, row_bytes}, 3});
      }
      break;
  }
  return specs;
}

}  // namespace

bool GivesRle(const PostprocessParams& params) noexcept {
  return HasMasks(params.head.family) || IsSemantic(params.head.family);
}

int CountRles(const PostprocessParams& params) noexcept {
  return IsSemantic(params.head.family) ? std::max(params.head.num_classes, 2)
                                        : params.max_detections;
}

std::vector<TensorSpec> PostprocessOutputs(const PostprocessParams& params) {
  std::vector<TensorSpec> specs = IsSemantic(params.head.family)         ? ClassMapOutputs()
                                  : IsClassification(params.head.family) ? ClassOutputs(params.head)
                                                                         : DetectionOutputs(params);
  specs.push_back({"status", DType::kInt32, {1}, 1});
  return specs;
}

void CheckOutputs(std::span<const TensorSpec> specs, const PostprocessOutput& output, size_t item,
                  DeviceId device) {
  if (output.tensors.size() != specs.size()) {
    FailArgument("item ", item, " has ", output.tensors.size(), " output views: it needs ",
                 specs.size());
  }
  for (size_t i = 0; i < specs.size(); ++i) {
    const TensorView& view = output.tensors[i];
    if (view.data == nullptr) continue;
    const TensorSpec& spec = specs[i];
    if (view.device == Device::kCuda && !IsAligned(view)) {
      FailArgument("output ", spec.name, " of item ", item,
                   " does not begin at a multiple of its element's size");
    }
    const bool same_shape =
        view.rank == spec.rank &&
        std::equal(spec.shape.begin(), spec.shape.begin() + spec.rank, view.shape.begin(),
                   [](int64_t expected, int64_t side) { return expected == side || expected < 0; });
    const bool on_cpu = device.type == Device::kCpu;
    const bool same_device = view.device == device.type && (on_cpu || view.device_id == device.id);
    if (!same_shape || view.dtype != spec.dtype || !same_device) {
      FailArgument("output ", spec.name, " of item ", item,
                   " has a wrong shape, dtype or device: ", "it is ", DTypeName(spec.dtype), " of ",
                   spec.shape[0], " rows in ",
                   on_cpu ? "CPU memory" : "memory of the GPU that runs this");
    }
  }
}

void WriteEmpty(const PostprocessParams& params, const PostprocessOutput& output, int32_t status) {
  const auto fill = [&](size_t position, int byte) {
    const TensorView& view = output.tensors[position];
    if (view.data != nullptr) std::memset(view.data, byte, view.size_bytes());
  };
  for (size_t i = 0; i < output.tensors.size(); ++i) fill(i, 0);
  if (IsSemantic(params.head.family)) {
    fill(0, params.ignore_label);
  } else {
    const bool classifies = IsClassification(params.head.family);
    fill(classifies ? size_t{kClassIdsOutput} : size_t{kIndicesOutput}, 0xFF);
  }
  if (GivesRle(params) && output.rle != nullptr) output.rle->clear();
  if (output.png != nullptr) output.png->clear();
  if (auto* value = Output<int32_t>(output, output.tensors.size() - 1)) *value = status;
}

int WriteDetections(const PostprocessParams& params, const Candidates& candidates,
                    std::span<const int64_t> kept, const Geometry* geometry,
                    const PostprocessOutput& output) {
  const size_t rows = std::min(kept.size(), static_cast<size_t>(params.max_detections));
  const bool rotated = HasAngles(params.head);
  auto* boxes = rotated ? nullptr : Output<float>(output, kBoxesOutput);
  auto* scores = Output<float>(output, kScoresOutput);
  auto* classes = Output<int32_t>(output, kClassesOutput);
  auto* indices = Output<int32_t>(output, kIndicesOutput);
  for (size_t row = 0; row < rows; ++row) {
    const auto from = static_cast<size_t>(kept[row]);
    const float* box = candidates.boxes_xyxy.data() + 4 * from;
    if (boxes != nullptr && geometry != nullptr) MapBox(*geometry, box, boxes + 4 * row);
    if (boxes != nullptr && geometry == nullptr) std::copy_n(box, 4, boxes + 4 * row);
    if (scores != nullptr) scores[row] = candidates.scores[from];
    if (classes != nullptr) classes[row] = candidates.class_ids[from];
    if (indices != nullptr) indices[row] = candidates.indices[from];
  }
  if (auto* count = Output<int32_t>(output, kNumOutput)) *count = static_cast<int32_t>(rows);
  return static_cast<int>(rows);
}

void WriteClasses(const ClassScores& classes, const PostprocessOutput& output) {
  if (auto* scores = Output<float>(output, kClassScoresOutput)) {
    std::copy(classes.scores.begin(), classes.scores.end(), scores);
  }
  if (auto* ids = Output<int32_t>(output, kClassIdsOutput)) {
    std::copy(classes.class_ids.begin(), classes.class_ids.end(), ids);
  }
  if (auto* probabilities = Output<float>(output, kProbabilitiesOutput)) {
    std::copy(classes.probabilities.begin(), classes.probabilities.end(), probabilities);
  }
}

}  // namespace endcap
