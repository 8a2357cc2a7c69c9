#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "box_decode/box_format.h"
#include "box_decode/families.h"
#include "box_decode/head_input.h"
#include "box_decode/score.h"
#include "common/score_order.h"
#include "endcap/box_decode.h"

namespace endcap {

// Memory of box_decode that a thread keeps from call to call, so that calls of the same size
// allocate nothing.
struct DecodeScratch {
  std::vector<uint64_t> keys, spare_keys;  // of CandidateList
  std::vector<float> head, scores;         // float16 inputs as float32
  std::vector<float> anchors;              // as these
  std::vector<float> row;                  // of a float16 head as float32
  std::vector<uint32_t> passing;           // anchors that a scan found
  std::vector<float> best;                 // an anchor's greatest raw score
  std::vector<int32_t> best_class;         // and whose it is
  std::vector<double> powers;              // of a row's classes, for a softmax
  std::vector<uint8_t> dropped;            // not 0: on_nan kDrop leaves the row out
  std::vector<float> class_limits;         // of FillClassLimits

  void Trim() {
    TrimScratch(keys, spare_keys, head, scores, anchors, row, passing, best, best_class, powers,
                dropped, class_limits);
  }
};

// Gathers what is over the threshold, keeps the best max_candidates, and only then reads boxes. A
// candidate is known by its position, a number that ascends with (index, class). A row is an
// anchor, a query or a row of the head: what an index numbers.
class CandidateList {
 public:
  // The list lies in the keys of `scratch`. The inputs are read by Finish only. Throws as
  // FillClassLimits.
  CandidateList(const HeadParams& params, HeadTensors inputs, DecodeScratch& scratch);

  // Refuses a NaN among the first rows and columns of an input as HeadInput::RefuseNan, or drops
  // its row.
  void CheckNan(const HeadInput& input, int64_t used_rows = HeadInput::kAll,
                int64_t used_columns = HeadInput::kAll);

  // With on_nan kDrop a row may be left out, before and after its scores have been added.
  bool drops() const noexcept { return params_.on_nan == OnNan::kDrop; }
  void Drop(size_t row);
  bool IsDropped(size_t row) const noexcept {
    return row < scratch_.dropped.size() && scratch_.dropped[row] != 0;
  }

  // Takes the score if it is greater than its class's limit, and than those of max_candidates
  // others.
  void Add(float score, uint32_t position, uint32_t class_id) {
    if (!(score > threshold_) || !PassesClass(class_limits_, class_id, score)) return;
    const uint64_t key = ScoreKey(score, position);
    if (key > worst_) return;
    scratch_.keys.push_back(key);
    if (scratch_.keys.size() >= cut_at_) Cut();
  }

  // LowestLimit. A score that is not greater is not looked at.
  float threshold() const noexcept { return threshold_; }

  // Only a score greater than this can still become a candidate.
  float ScoreLimit() const noexcept;

  struct Label {
    int32_t index;
    int32_t class_id;
  };

  // Sorts (score descending, position ascending), cuts, and fills `candidates`. rows: of the head.
  // label(position) gives the Label, read_box(index) four numbers in box_format and box_unit. For
  // a box or a score that is not finite, throws kInvalidArgument or drops its row, and throws for
  // more than half of the rows.
  template <typename GiveLabel, typename ReadBox>
  void Finish(int64_t rows, BoxFormat box_format, GiveLabel label, ReadBox read_box,
              Candidates& candidates) {
    if (drops()) {
      for (const uint64_t key : scratch_.keys) {
        const auto row = static_cast<size_t>(label(KeyPosition(key)).index);
        if (IsDropped(row)) continue;
        const BoxXyxy box = ToPixels(box_format, read_box(static_cast<int32_t>(row)));
        if (!IsFinite(box) || !std::isfinite(KeyScore(key)) || !HasFiniteExtras(row)) Drop(row);
      }
      std::erase_if(scratch_.keys, [&](uint64_t key) {
        return IsDropped(static_cast<size_t>(label(KeyPosition(key)).index));
      });
      if (2 * int64_t{dropped_} > rows) FailDropped(dropped_, rows);
    }
    Sort(candidates);
    for (size_t i = 0; i < scratch_.keys.size(); ++i) {
      const uint64_t key = scratch_.keys[i];
      const Label found = label(KeyPosition(key));
      Write(candidates, i, KeyScore(key), found, ToPixels(box_format, read_box(found.index)));
    }
  }

 private:
  void Cut();
  // Cuts and sorts the keys, and makes room for them.
  void Sort(Candidates& candidates);
  bool HasFiniteExtras(size_t row) const;
  static bool IsFinite(const BoxXyxy& box);
  BoxXyxy ToPixels(BoxFormat format, const BoxXyxy& raw) const;
  static void Write(Candidates& candidates, size_t place, float score, const Label& label,
                    const BoxXyxy& box);

  const HeadParams& params_;
  HeadTensors inputs_;
  BoxUnit box_unit_;
  float input_width_;
  float input_height_;
  DecodeScratch& scratch_;
  const float* class_limits_;  // null where all are threshold_
  float threshold_;
  size_t limit_;
  size_t cut_at_;  // more than limit_, so that cuts are rare
  uint64_t worst_ = std::numeric_limits<uint64_t>::max();
  bool truncated_ = false;
  int dropped_ = 0;
};

// The positions of the families with a score for each class: anchor * num_classes + class with
// multi_label, else anchors, whose classes are in scratch.best_class.
inline CandidateList::Label AnchorLabel(const HeadParams& params, const DecodeScratch& scratch,
                                        uint32_t position) {
  if (!params.ResolvedMultiLabel())
    return {static_cast<int32_t>(position), scratch.best_class[position]};
  const auto classes = static_cast<uint32_t>(std::max(params.num_classes, 1));
  return {static_cast<int32_t>(position / classes), static_cast<int32_t>(position % classes)};
}

}  // namespace endcap
