#include <algorithm>

#include "decode/plane_decoder.h"

namespace endcap {
namespace {

// What a step reads should take longer than waking a thread up, and what is ahead should stay in
// the second-level cache.
constexpr size_t kBytesPerStep = size_t{128} << 10;

// Of all rows ahead, whatever the size of the image.
constexpr size_t kMaxBytes = size_t{2} << 20;

}  // namespace

bool CoefficientQueue::IsWorthwhile(const SequentialDecoder& decoder) noexcept {
  return kStepsAhead * decoder.coefficient_row_bytes() <= kMaxBytes;
}

CoefficientQueue::CoefficientQueue(SequentialDecoder& decoder, ReadAhead& ahead, int end_row)
    : decoder_(decoder), ahead_(ahead), end_row_(end_row) {
  const size_t rows = kBytesPerStep / decoder.coefficient_row_bytes();
  // Small files have some steps, too.
  rows_per_step_ = std::max(std::min(static_cast<int>(rows), end_row / (2 * kStepsAhead)), 1);
  while (rows_.size() < static_cast<size_t>(rows_per_step_) * kStepsAhead) {
    rows_.push_back(decoder.MakeCoefficientRow());
  }
  ahead_.Begin([this](int step) { ReadStep(step); });
  ahead_.Allow(std::min(kStepsAhead, end_row_ / rows_per_step_));
}

void CoefficientQueue::ReadStep(int step) {
  const int first = step * rows_per_step_;
  for (int row = first; row < first + rows_per_step_; ++row) decoder_.ReadCodes(RowAt(row));
}

// Rows that do not fill a step are read when they are asked for, one by one.
void CoefficientQueue::ReadMcuRow(const PlaneRows* planes) {
  const int row = next_row_++;
  const int step = row / rows_per_step_;
  const int steps = end_row_ / rows_per_step_;
  if (step < steps) {
    ahead_.Require(step);
  } else {
    decoder_.ReadCodes(RowAt(row));
  }
  decoder_.Transform(RowAt(row), planes);
  const bool ends_step = (row + 1) % rows_per_step_ == 0;
  if (ends_step) ahead_.Allow(std::min(step + 1 + kStepsAhead, steps));
}

}  // namespace endcap
