#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "decode/jpeg_sampling.h"
#include "endcap/row_band.h"

namespace endcap {

// The last two rows of MCUs of one component, as the decoder gives them.
class PlaneRing {
 public:
  explicit PlaneRing(const PlaneSize& size)
      : mcu_rows_(size.mcu_rows),
        width_(size.width),
        height_(size.height),
        stride_(static_cast<size_t>(size.padded_width) + kRowSlackBytes),
        samples_(stride_ * 2 * static_cast<size_t>(mcu_rows_)),
        rows_(static_cast<size_t>(mcu_rows_)) {}

  int width() const noexcept { return width_; }
  int height() const noexcept { return height_; }

  // Where the decoder is to put the rows of MCU row `index`.
  JSAMPROW* Slot(int index) {
    for (int i = 0; i < mcu_rows_; ++i) {
      rows_[static_cast<size_t>(i)] = At(index * mcu_rows_ + i);
    }
    return rows_.data();
  }

  // Row `row` of the component, which must be of the last two MCU rows; beyond the border the
  // border's.
  const uint8_t* Row(int row) { return At(row < 0 ? 0 : (row >= height_ ? height_ - 1 : row)); }

 private:
  uint8_t* At(int row) {
    return samples_.data() + stride_ * static_cast<size_t>(row % (2 * mcu_rows_));
  }

  int mcu_rows_;
  int width_;
  int height_;
  size_t stride_;
  std::vector<uint8_t> samples_;
  std::vector<JSAMPROW> rows_;
};

}  // namespace endcap
