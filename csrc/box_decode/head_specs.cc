#include "box_decode/anchor_grid.h"
#include "box_decode/families.h"

namespace endcap {
namespace {

TensorSpec Vector(std::string_view name, int64_t size, DType dtype = DType::kFloat32) {
  return {name, dtype, {size}, 1};
}

TensorSpec Matrix(std::string_view name, int64_t rows, int64_t columns) {
  return {name, DType::kFloat32, {rows, columns}, 2};
}

HeadSpecs RtdetrSpecs(const HeadParams& params) noexcept {
  const int64_t columns = ScoreColumns(params);
  if (params.joined) return {{Matrix("head", -1, 4 + columns)}, 1};
  return {{Matrix("logits", -1, columns), Matrix("boxes", -1, 4)}, 2};
}

HeadSpecs SsdSpecs(const HeadParams& params) noexcept {
  const int64_t anchors = params.anchors == AnchorSource::kGrid ? AnchorCount(params) : -1;
  HeadSpecs heads = {{Matrix("boxes", anchors, 4), Matrix("scores", anchors, ScoreColumns(params))},
                     2};
  if (params.anchors == AnchorSource::kInput) heads.specs[heads.count++] = Matrix("anchors", -1, 4);
  return heads;
}

}  // namespace

HeadSpecs MakeHeadSpecs(const HeadParams& params) noexcept {
  const int64_t classes = params.num_classes;
  const int64_t columns = 4 + classes + ExtraValues(params);
  switch (params.family) {
    case HeadFamily::kYolov5:
      return {{Matrix("head", -1, 5 + classes)}, 1};
    case HeadFamily::kYolov8:
    case HeadFamily::kYolov8Pose:
    case HeadFamily::kYolov8Obb:
      return {{Matrix("head", columns, -1)}, 1};
    case HeadFamily::kYolov8Seg:
      return {{Matrix("head", columns, -1),
               {"protos",
                DType::kFloat32,
                {params.mask_coefficients, params.prototype_height, params.prototype_width},
                3}},
              2};
    case HeadFamily::kEnd2End:
      return {{Matrix("head", -1, 6)}, 1};
    case HeadFamily::kRtdetr:
      return RtdetrSpecs(params);
    case HeadFamily::kSsd:
      return SsdSpecs(params);
    case HeadFamily::kEfficientNms:
      return {{Vector("num_detections", 1, DType::kInt32), Matrix("boxes", -1, 4),
               Vector("scores", -1), Vector("classes", -1, DType::kInt32)},
              4};
    case HeadFamily::kClassification:
      return {{Vector("logits", classes)}, 1};
  }
  return {};
}

}  // namespace endcap
