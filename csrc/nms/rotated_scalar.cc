#include "nms/rotated_scalar.h"

#include "nms/rotated_methods.h"

namespace endcap {
namespace {

template <typename Method>
void Suppress(std::span<const float> boxes_xywhr, std::span<const int32_t> class_ids,
              std::span<const int64_t> order, const RotatedNmsOptions& options,
              std::vector<int64_t>& indices) {
  struct Suppressor {
    typename Method::Box box;
    int32_t class_id;
  };
  const bool suppressed_suppress = options.method == RotatedNms::kProbiouFast;
  std::vector<Suppressor> suppressors;
  for (const int64_t index : order) {
    if (options.max_detections >= 0 && std::ssize(indices) >= options.max_detections) break;
    const auto i = static_cast<size_t>(index);
    const Suppressor candidate{Method::Prepare(boxes_xywhr.data() + 5 * i),
                               class_ids.empty() ? 0 : class_ids[i]};
    bool suppressed = false;
    for (const Suppressor& suppressor : suppressors) {
      if (suppressor.class_id != candidate.class_id) continue;
      const float iou = Method::Iou(suppressor.box, candidate.box);
      suppressed = static_cast<double>(iou) > options.iou_threshold;
      if (suppressed) break;
    }
    if (!suppressed) indices.push_back(index);
    if (!suppressed || suppressed_suppress) suppressors.push_back(candidate);
  }
}

}  // namespace

void NmsRotatedScalar(std::span<const float> boxes_xywhr, std::span<const int32_t> class_ids,
                      std::span<const int64_t> order, const RotatedNmsOptions& options,
                      std::vector<int64_t>& indices) {
  indices.clear();
  const bool is_polygon = options.method == RotatedNms::kPolygon;
  const auto suppress = is_polygon ? Suppress<PolygonMethod> : Suppress<ProbiouMethod>;
  suppress(boxes_xywhr, class_ids, order, options, indices);
}

}  // namespace endcap
