#include "nms/implementations.h"
#include "nms/iou.h"

namespace endcap {

void NmsScalar(std::span<const float> boxes_xyxy, std::span<const int32_t> class_ids,
               std::span<const int64_t> order, const NmsOptions& options,
               std::vector<int64_t>& kept_indices) {
  struct Kept {
    const float* box;
    float area;
    int32_t class_id;
  };
  std::vector<Kept> kept;
  kept_indices.clear();
  for (const int64_t index : order) {
    if (options.max_detections >= 0 && std::ssize(kept_indices) >= options.max_detections) break;
    const auto i = static_cast<size_t>(index);
    const Kept candidate{boxes_xyxy.data() + 4 * i, BoxArea(boxes_xyxy.data() + 4 * i),
                         class_ids.empty() ? 0 : class_ids[i]};
    bool suppressed = false;
    for (const Kept& other : kept) {
      if (other.class_id != candidate.class_id) continue;
      const float iou = BoxIou(other.box, other.area, candidate.box, candidate.area);
      suppressed = static_cast<double>(iou) > options.iou_threshold;
      if (suppressed) break;
    }
    if (suppressed) continue;
    kept.push_back(candidate);
    kept_indices.push_back(index);
  }
}

}  // namespace endcap
