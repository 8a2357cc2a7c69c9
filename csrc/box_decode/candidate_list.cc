#include "box_decode/candidate_list.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "common/fail.h"

namespace endcap {

bool CandidateList::SortAndCut() {
  const auto better = [](const Entry& a, const Entry& b) {
    return std::tuple(b.score, a.index, a.class_id) < std::tuple(a.score, b.index, b.class_id);
  };
  const auto limit = static_cast<size_t>(params_.max_candidates);
  const bool truncated = entries_.size() > limit;
  if (truncated) {
    const auto cut = entries_.begin() + static_cast<ptrdiff_t>(limit);
    std::nth_element(entries_.begin(), cut, entries_.end(), better);
    entries_.erase(cut, entries_.end());
  }
  std::sort(entries_.begin(), entries_.end(), better);
  return truncated;
}

BoxXyxy CandidateList::ToPixels(BoxFormat format, const BoxXyxy& raw) const {
  BoxXyxy box = raw;
  if (format == BoxFormat::kCxcywh) box = CornersOf(raw.x1, raw.y1, raw.x2, raw.y2);
  if (params_.box_unit == BoxUnit::kNormalized) {
    const auto width = static_cast<float>(params_.input_width);
    const auto height = static_cast<float>(params_.input_height);
    box = {box.x1 * width, box.y1 * height, box.x2 * width, box.y2 * height};
  }
  return box;
}

void CandidateList::Append(const Entry& entry, const BoxXyxy& box, Candidates& candidates) {
  for (const float value : {box.x1, box.y1, box.x2, box.y2}) {
    if (!std::isfinite(value)) {
      FailArgument("the box of candidate ", entry.index, " is not finite");
    }
    candidates.boxes_xyxy.push_back(value);
  }
  if (!std::isfinite(entry.score)) {
    FailArgument("the score of candidate ", entry.index, " is not finite");
  }
  candidates.scores.push_back(entry.score);
  candidates.class_ids.push_back(entry.class_id);
  candidates.indices.push_back(entry.index);
}

int CheckedClass(const HeadParams& params, double class_id, int64_t row) {
  if (!(class_id >= 0.0 && class_id < params.num_classes) || class_id != std::floor(class_id)) {
    FailArgument("row ", row, " has class ", class_id, ": num_classes is ", params.num_classes);
  }
  return static_cast<int>(class_id);
}

}  // namespace endcap
