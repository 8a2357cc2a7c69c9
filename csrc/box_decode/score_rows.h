#pragma once

#include <cstddef>

#include "box_decode/families.h"
#include "box_decode/head_input.h"
#include "box_decode/score.h"

namespace endcap {

ScoreRowRule MakeScoreRowRule(const HeadParams& params) noexcept;

// A score for each class in a row for each anchor or query: rtdetr and ssd.
struct ScoreRows {
  const HeadInput& tensor;
  const float* first;    // class 0 of row 0
  bool has_background;   // a column before or behind the classes, for "no object"
  ptrdiff_t background;  // from class 0 of a row
  size_t first_class;    // class 0's place among a row's scores

  ScoreRows(const ScoreRowRule& rule, const HeadInput& head);

  size_t count() const noexcept { return static_cast<size_t>(tensor.rows()); }
  const float* Row(size_t row) const noexcept {
    return first + row * static_cast<size_t>(tensor.row_length());
  }
};

// The greatest class score of each row, into greatest [count]; returns whether there may be a NaN
// or an infinite number among the scores.
bool ScanGreatest(const ScoreRows& rows, size_t classes, float* greatest);

}  // namespace endcap
