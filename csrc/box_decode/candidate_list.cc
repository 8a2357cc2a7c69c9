#include "box_decode/candidate_list.h"

#include <algorithm>
#include <cmath>

#include "box_decode/families.h"
#include "common/fail.h"

namespace endcap {
namespace {

constexpr size_t kMinSpare = 4096;

}  // namespace

CandidateList::CandidateList(const HeadParams& params, HeadTensors inputs, DecodeScratch& scratch)
    : params_(params),
      inputs_(inputs),
      box_unit_(params.ResolvedBoxUnit()),
      input_width_(static_cast<float>(params.input_width)),
      input_height_(static_cast<float>(params.input_height)),
      scratch_(scratch),
      limit_(static_cast<size_t>(params.max_candidates)),
      // Which candidates are dropped is known when all have been added.
      cut_at_(drops() ? std::numeric_limits<size_t>::max() : limit_ + std::max(limit_, kMinSpare)) {
  scratch_.keys.clear();
  scratch_.dropped.clear();
  FillClassLimits(params, scratch_.class_limits);
  class_limits_ = scratch_.class_limits.empty() ? nullptr : scratch_.class_limits.data();
  threshold_ = LowestLimit(params, scratch_.class_limits);
}

void CandidateList::CheckNan(const HeadInput& input, int64_t used_rows, int64_t used_columns) {
  if (!drops()) return input.RefuseNan(used_rows, used_columns);
  const bool in_columns = GetFamily(params_.family).layout == HeadLayout::kAnchorColumns;
  input.VisitNan(used_rows, used_columns, [&](int64_t row, int64_t column) {
    Drop(static_cast<size_t>(in_columns ? column : row));
  });
}

void CandidateList::Drop(size_t row) {
  if (IsDropped(row)) return;
  if (row >= scratch_.dropped.size()) scratch_.dropped.resize(row + 1);
  scratch_.dropped[row] = 1;
  ++dropped_;
}

bool CandidateList::HasFiniteExtras(size_t row) const {
  const AnchorValues values = GetAnchorValues(params_);
  const HeadValues numbers(inputs_[0]);
  const auto anchors = static_cast<uint64_t>(inputs_[0].shape[1]);
  const auto end = values.first_extra + static_cast<uint32_t>(ExtraValues(params_));
  for (uint32_t value = values.first_extra; value < end; ++value) {
    if (!std::isfinite(numbers[values.At(anchors, value, row)])) return false;
  }
  return true;
}

bool CandidateList::IsFinite(const BoxXyxy& box) {
  return std::isfinite(box.x1) && std::isfinite(box.y1) && std::isfinite(box.x2) &&
         std::isfinite(box.y2);
}

void CandidateList::Cut() {
  auto& keys = scratch_.keys;
  const auto last = keys.begin() + static_cast<ptrdiff_t>(limit_) - 1;
  std::nth_element(keys.begin(), last, keys.end());
  worst_ = *last;
  truncated_ = true;
  keys.resize(limit_);
}

void CandidateList::Sort(Candidates& candidates) {
  if (scratch_.keys.size() > limit_) Cut();
  SortKeys(scratch_.keys, scratch_.spare_keys);
  const size_t count = scratch_.keys.size();
  candidates.boxes_xyxy.resize(4 * count);
  candidates.scores.resize(count);
  candidates.class_ids.resize(count);
  candidates.indices.resize(count);
  candidates.truncated = truncated_;
  candidates.dropped = dropped_;
}

float CandidateList::ScoreLimit() const noexcept {
  if (!truncated_) return threshold_;
  return std::nextafter(KeyScore(worst_), -std::numeric_limits<float>::infinity());
}

BoxXyxy CandidateList::ToPixels(BoxFormat format, const BoxXyxy& raw) const {
  return BoxInPixels(raw, format, box_unit_, input_width_, input_height_);
}

void CandidateList::Write(Candidates& candidates, size_t place, float score, const Label& label,
                          const BoxXyxy& box) {
  if (!IsFinite(box)) FailArgument("the box of candidate ", label.index, " is not finite");
  if (!std::isfinite(score)) {
    FailArgument("the score of candidate ", label.index, " is not finite");
  }
  float* numbers = candidates.boxes_xyxy.data() + 4 * place;
  numbers[0] = box.x1;
  numbers[1] = box.y1;
  numbers[2] = box.x2;
  numbers[3] = box.y2;
  candidates.scores[place] = score;
  candidates.class_ids[place] = label.class_id;
  candidates.indices[place] = label.index;
}

}  // namespace endcap
