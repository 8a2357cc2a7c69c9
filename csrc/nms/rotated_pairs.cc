#include "common/fail.h"
#include "endcap/nms.h"
#include "nms/rotated_methods.h"

namespace endcap {
namespace {

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

void RotatedIou(std::span<const float> a, std::span<const float> b, RotatedNms method,
                std::span<float> iou) {
  if (a.size() % 5 != 0 || b.size() % 5 != 0) {
    FailArgument("boxes hold ", a.size(), " and ", b.size(),
                 " numbers: each box needs 5, cx,cy,w,h,angle");
  }
  const size_t pairs = (a.size() / 5) * (b.size() / 5);
  if (iou.size() != pairs) {
    FailArgument("iou has room for ", iou.size(), " numbers: give one for each of ", pairs,
                 " pairs");
  }
  const auto fill =
      method == RotatedNms::kPolygon ? FillIou<PolygonMethod> : FillIou<ProbiouMethod>;
  fill(a, b, iou);
}

}  // namespace endcap
