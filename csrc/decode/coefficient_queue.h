#pragma once

#include <vector>

#include "decode/sequential_decoder.h"
#include "endcap/read_ahead.h"

namespace endcap {

// Rows of MCUs whose codes a helper reads, ahead of the thread that transforms them and uses their
// samples. Several rows are one step of the helper, so that the threads seldom wait for each other.
class CoefficientQueue {
 public:
  // Whether the rows are not so long that those ahead would take much memory.
  static bool IsWorthwhile(const SequentialDecoder& decoder) noexcept;
  // end_row: rows of MCUs from it on are not read ahead, so that damage is found where it is found
  // without a helper. Throws std::bad_alloc.
  CoefficientQueue(SequentialDecoder& decoder, ReadAhead& ahead, int end_row);
  ~CoefficientQueue() { ahead_.End(); }
  CoefficientQueue(const CoefficientQueue&) = delete;
  CoefficientQueue& operator=(const CoefficientQueue&) = delete;

  // As SequentialDecoder::ReadMcuRow.
  void ReadMcuRow(const PlaneRows* planes);

 private:
  static constexpr int kStepsAhead = 4;

  void ReadStep(int step);
  CoefficientRow& RowAt(int row) { return rows_[static_cast<size_t>(row) % rows_.size()]; }

  SequentialDecoder& decoder_;
  ReadAhead& ahead_;
  int end_row_;
  int rows_per_step_ = 1;
  int next_row_ = 0;  // that is transformed
  std::vector<CoefficientRow> rows_;
};

}  // namespace endcap
