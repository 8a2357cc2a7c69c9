#include "decode/group_transform.h"

#include <cstring>

namespace endcap {

GroupTransform::GroupTransform() noexcept {
  const int lanes = blocks() * kBlockSide;
  for (size_t k = 0; k < order_.size(); ++k) {
    const int place = kNaturalOrder[k];
    order_[k] = static_cast<uint8_t>(place / kBlockSide * lanes + place % kBlockSide);
  }
}

void GroupTransform::FillQuantization(const JpegTables::Quantization& table,
                                      int16_t* quantization) const {
  constexpr size_t kSide = kBlockSide;
  for (size_t row = 0; row < kSide; ++row) {
    for (int block = 0; block < blocks(); ++block) {
      for (size_t column = 0; column < kSide; ++column) {
        *quantization++ = static_cast<int16_t>(table.steps[row * kSide + column]);
      }
    }
  }
}

void GroupTransform::RunInPart(const JpegComponent& component, int16_t* coefficients,
                               const int16_t* quantization, int last_place, int count,
                               uint8_t* const* rows, size_t column) {
  std::array<uint8_t*, kMaxBlockSize> spare;
  for (size_t row = 0; row < spare.size(); ++row) spare[row] = spare_[row].data();
  For(component)(coefficients, quantization, last_place, spare.data(), 0);
  const auto side = static_cast<size_t>(component.block_size);
  for (size_t row = 0; row < side; ++row) {
    std::memcpy(rows[row] + column, spare[row], static_cast<size_t>(count) * side);
  }
}

}  // namespace endcap
