#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "box_decode/box_format.h"
#include "common/half.h"
#include "endcap/box_decode.h"
#include "endcap/implementation.h"

namespace endcap {

// Checks rank, fixed dimensions and dtype against `spec` and OtherDTypes, in whatever memory the
// values are. Throws kInvalidArgument, and kUnsupported beyond 2^32 elements.
void CheckHeadTensor(const TensorSpec& spec, const ConstTensorView& view);

// CheckHeadTensor, and refuses GPU memory.
void CheckHostTensor(const TensorSpec& spec, const ConstTensorView& view);

// A value of a head as float32; float16 values are given as their bits.
inline float ToFloat(float value) noexcept { return value; }
inline float ToFloat(uint16_t value) noexcept { return HalfToFloat(value); }

// float32 or float16 values as they lie in memory.
class HeadValues {
 public:
  // data: of float16 values, their bits.
  HeadValues(const void* data, size_t size, bool is_half) noexcept
      : data_(data), size_(size), is_half_(is_half) {}
  explicit HeadValues(const ConstTensorView& view) noexcept
      : HeadValues(view.data, static_cast<size_t>(view.size()), view.dtype == DType::kFloat16) {}

  size_t size() const noexcept { return size_; }
  bool is_half() const noexcept { return is_half_; }
  float operator[](size_t place) const noexcept {
    return is_half_ ? ToFloat(halves()[place]) : ToFloat(floats()[place]);
  }
  HeadValues Part(size_t first, size_t count) const noexcept {
    if (is_half_) return {halves() + first, count, true};
    return {floats() + first, count, false};
  }
  // As float32: the caller's memory, or a copy of float16 values in `memory`, made by the loop of
  // `implementation`.
  const float* AsFloats(Implementation implementation, std::vector<float>& memory) const;
  // Calls read(pointer), which is const float* or const uint16_t*.
  template <typename Read>
  auto Visit(Read read) const {
    return is_half_ ? read(halves()) : read(floats());
  }
  const float* floats() const noexcept { return static_cast<const float*>(data_); }
  const uint16_t* halves() const noexcept { return static_cast<const uint16_t*>(data_); }

 private:
  const void* data_;
  size_t size_;
  bool is_half_;
};

// One input of a head. Construction does CheckHostTensor's checks. Values are not checked yet.
class HeadInput {
 public:
  static constexpr int64_t kAll = std::numeric_limits<int64_t>::max();

  // The caller's memory.
  HeadInput(const TensorSpec& spec, const ConstTensorView& view);
  // As float32, see HeadValues::AsFloats.
  HeadInput(const TensorSpec& spec, const ConstTensorView& view, std::vector<float>& memory,
            Implementation implementation = Implementation::kScalar);
  HeadInput(const HeadInput&) = delete;
  HeadInput& operator=(const HeadInput&) = delete;

  // Calls found(row, column) for each NaN, row after row. Only that many of the first rows and
  // columns count; what the others hold does not matter.
  template <typename Found>
  void VisitNan(int64_t used_rows, int64_t used_columns, Found found) const {
    const int64_t last_row = std::min(used_rows, rows());
    const int64_t last_column = std::min(used_columns, row_length());
    for (int64_t row = 0; row < last_row; ++row) {
      for (int64_t column = 0; column < last_column; ++column) {
        if (std::isnan(At(row, column))) found(row, column);
      }
    }
  }
  // Throws kInvalidArgument with the first element that is NaN.
  void RefuseNan(int64_t used_rows = kAll, int64_t used_columns = kAll) const;

  const HeadValues& values() const noexcept { return values_; }
  // A row of float32 values.
  const float* row(int64_t index) const noexcept { return values_.floats() + index * row_length(); }
  // A row of values of either type; of float16 ones a converted copy, which lies in `memory`.
  const float* ReadRow(int64_t index, std::vector<float>& memory) const;
  float At(int64_t row, int64_t column) const noexcept {
    return values_[static_cast<size_t>(row * row_length() + column)];
  }
  // The first four numbers of a row.
  BoxXyxy Box(int64_t index) const noexcept {
    return {At(index, 0), At(index, 1), At(index, 2), At(index, 3)};
  }
  int64_t rows() const noexcept { return shape_[0]; }
  int64_t row_length() const noexcept { return shape_[1]; }

 private:
  std::string_view name_;
  HeadValues values_;
  std::array<int64_t, 2> shape_{1, 1};
};

// An input of whole numbers, int32 or int64, in the caller's memory. Construction does
// CheckHostTensor's checks.
class IntegerInput {
 public:
  IntegerInput(const TensorSpec& spec, const ConstTensorView& view);

  int64_t operator[](int64_t index) const noexcept {
    return is_wide_ ? static_cast<const int64_t*>(data_)[index]
                    : static_cast<const int32_t*>(data_)[index];
  }

 private:
  const void* data_;
  bool is_wide_;
};

}  // namespace endcap
