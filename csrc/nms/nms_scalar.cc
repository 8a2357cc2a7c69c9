#include "common/fail.h"
#include "nms/implementations.h"
#include "nms/iou.h"
#include "nms/rotated_methods.h"

namespace endcap {
namespace {

// Comparing axis-aligned boxes; see rotated_methods.h.
struct CornersMethod {
  struct Box {
    const float* xyxy;
    float area;
  };
  static Box Prepare(const float* xyxy) { return {xyxy, BoxArea(xyxy)}; }
  static float Iou(const Box& a, const Box& b) { return BoxIou(a.xyxy, a.area, b.xyxy, b.area); }
};

// suppressed_suppress: boxes that are not kept suppress, too.
template <typename Method, size_t kNumbers, typename Options>
void Suppress(std::span<const float> boxes, std::span<const int32_t> class_ids,
              std::span<const int64_t> order, const Options& options, bool suppressed_suppress,
              std::vector<int64_t>& kept) {
  struct Suppressor {
    typename Method::Box box;
    int32_t class_id;
  };
  std::vector<Suppressor> suppressors;
  kept.clear();
  for (const int64_t index : order) {
    if (options.max_detections >= 0 && std::ssize(kept) >= options.max_detections) break;
    const auto i = static_cast<size_t>(index);
    const Suppressor candidate{Method::Prepare(boxes.data() + kNumbers * i),
                               class_ids.empty() ? 0 : class_ids[i]};
    bool suppressed = false;
    for (const Suppressor& suppressor : suppressors) {
      if (suppressor.class_id != candidate.class_id) continue;
      const float iou = Method::Iou(suppressor.box, candidate.box);
      suppressed = static_cast<double>(iou) > options.iou_threshold;
      if (suppressed) break;
    }
    if (!suppressed) kept.push_back(index);
    if (!suppressed || suppressed_suppress) suppressors.push_back(candidate);
  }
}

template <typename Method>
std::vector<typename Method::Box> PrepareAll(std::span<const float> boxes_xywhr) {
  std::vector<typename Method::Box> prepared;
  prepared.reserve(boxes_xywhr.size() / 5);
  for (size_t i = 0; i < boxes_xywhr.size(); i += 5) {
    prepared.push_back(Method::Prepare(boxes_xywhr.data() + i));
  }
  return prepared;
}

template <typename Method>
void FillIou(std::span<const float> a, std::span<const float> b, std::span<float> iou) {
  const auto rows = PrepareAll<Method>(a);
  const auto columns = PrepareAll<Method>(b);
  size_t place = 0;
  for (const auto& row : rows) {
    for (const auto& column : columns) iou[place++] = Method::Iou(row, column);
  }
}

}  // namespace

void NmsScalar(std::span<const float> boxes_xyxy, std::span<const int32_t> class_ids,
               std::span<const int64_t> order, const NmsOptions& options,
               std::vector<int64_t>& kept) {
  Suppress<CornersMethod, 4>(boxes_xyxy, class_ids, order, options, false, kept);
}

void NmsRotatedScalar(std::span<const float> boxes_xywhr, std::span<const int32_t> class_ids,
                      std::span<const int64_t> order, const RotatedNmsOptions& options,
                      std::vector<int64_t>& kept) {
  const bool is_polygon = options.method == RotatedNms::kPolygon;
  const auto suppress = is_polygon ? Suppress<PolygonMethod, 5, RotatedNmsOptions>
                                   : Suppress<ProbiouMethod, 5, RotatedNmsOptions>;
  const bool suppressed_suppress = options.method == RotatedNms::kProbiouFast;
  suppress(boxes_xywhr, class_ids, order, options, suppressed_suppress, kept);
}

void RotatedIou(std::span<const float> a, std::span<const float> b, RotatedNms method,
                std::span<float> iou) {
  if (a.size() % 5 != 0 || b.size() % 5 != 0) {
    FailArgument("boxes hold ", a.size(), " and ", b.size(),
                 " numbers: each box needs 5, cx,cy,w,h,angle");
  }
  const size_t pairs = (a.size() / 5) * (b.size() / 5);
  if (iou.size() != pairs) {
    FailArgument("iou has ", iou.size(), " numbers: give one for each of ", pairs, " pairs");
  }
  const auto fill =
      method == RotatedNms::kPolygon ? FillIou<PolygonMethod> : FillIou<ProbiouMethod>;
  fill(a, b, iou);
}

}  // namespace endcap
