#pragma once

#include <vector>

#include "box_decode/box_format.h"
#include "endcap/box_decode.h"

namespace endcap {

// Gathers what is over the threshold, keeps the best max_candidates, and only then reads boxes.
class CandidateList {
 public:
  explicit CandidateList(const HeadParams& params) : params_(params) {}

  // Takes the score if it is greater than score_threshold.
  void Add(float score, int64_t index, int class_id) {
    if (static_cast<double>(score) > params_.score_threshold) {
      entries_.push_back({score, static_cast<int32_t>(index), class_id});
    }
  }

  // Sorts (score descending, index, class ascending), cuts, and fills `candidates`. read_box(index)
  // gives four numbers in box_format and box_unit. Throws kInvalidArgument for a box or a score
  // that is not finite.
  template <typename ReadBox>
  void Finish(BoxFormat box_format, ReadBox read_box, Candidates& candidates) {
    candidates.truncated = SortAndCut();
    candidates.boxes_xyxy.clear();
    candidates.scores.clear();
    candidates.class_ids.clear();
    candidates.indices.clear();
    for (const Entry& entry : entries_) {
      Append(entry, ToPixels(box_format, read_box(entry.index)), candidates);
    }
  }

 private:
  struct Entry {
    float score;
    int32_t index;
    int32_t class_id;
  };

  bool SortAndCut();
  BoxXyxy ToPixels(BoxFormat format, const BoxXyxy& raw) const;
  static void Append(const Entry& entry, const BoxXyxy& box, Candidates& candidates);

  const HeadParams& params_;
  std::vector<Entry> entries_;
};

// Throws kInvalidArgument when a class id that a model gave is not one of num_classes.
int CheckedClass(const HeadParams& params, double class_id, int64_t row);

}  // namespace endcap
