#include "preprocess/roi_targets.h"

#include <algorithm>

#include "common/fail.h"
#include "preprocess/placement.h"
#include "preprocess/preprocess_output.h"
#include "preprocess/roi_rect.h"

namespace endcap {

std::vector<RoiTarget> MakeRoiTargets(const PreprocessParams& params, const RoiImage& image,
                                      size_t first, const ImageHeader& header,
                                      std::span<ItemStatus> statuses) {
  const int image_w = header.oriented_width();
  const int image_h = header.oriented_height();
  std::vector<RoiTarget> targets;
  for (size_t i = 0; i < statuses.size(); ++i) {
    const size_t index = first + i;
    const PreprocessOutput& output = image.outputs[index];
    try {
      const PixelRect rect = ClipRoi(image.rois[index], index, image.rois.size(), image_w, image_h);
      WriteGeometry(output, MakeRoiGeometry(Place(params, rect.width, rect.height), rect, image_w,
                                            image_h, header.orientation, output.source_index));
      targets.push_back({rect, &output});
    } catch (const Error&) {
      statuses[i] = MakeStatusFromCurrentException();
      WriteGeometry(output, BlankGeometry(output));
    }
  }
  return targets;
}

bool WantsTensors(const RoiImage& image) {
  const auto wanted = [](const PreprocessOutput& output) { return output.image.data != nullptr; };
  const auto count = std::ranges::count_if(image.outputs, wanted);
  if (count != 0 && count != std::ssize(image.outputs)) {
    FailArgument(count, " of ", image.outputs.size(),
                 " rois came with memory for a tensor: give it for all or for none");
  }
  return count != 0;
}

PixelRect BoundingRect(const std::vector<RoiTarget>& targets) {
  PixelRect all = targets.front().rect;
  for (const RoiTarget& target : targets) {
    const PixelRect& rect = target.rect;
    const int right = std::max(all.right(), rect.right());
    const int bottom = std::max(all.bottom(), rect.bottom());
    all.x = std::min(all.x, rect.x);
    all.y = std::min(all.y, rect.y);
    all.width = right - all.x;
    all.height = bottom - all.y;
  }
  return all;
}

void SettleRoiItem(RoiItem& item) {
  const auto bad = std::find_if(item.rois.begin(), item.rois.end(),
                                [](const ItemStatus& status) { return !status.ok(); });
  if (item.status.ok() && bad != item.rois.end()) item.status = *bad;
}

}  // namespace endcap
