#pragma once

#include <array>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "box_decode/box_format.h"
#include "endcap/box_decode.h"
#include "endcap/implementation.h"

namespace endcap {

// Checks rank, fixed dimensions and dtype against `spec` and OtherDTypes, in whatever memory the
// values are. Throws kInvalidArgument, and kUnsupported beyond 2^32 elements.
void CheckHeadTensor(const TensorSpec& spec, const ConstTensorView& view);

// CheckHeadTensor, and refuses GPU memory.
void CheckHostTensor(const TensorSpec& spec, const ConstTensorView& view);

// One input of a head as float32: the caller's memory where it is float32 already, a converted copy
// where it is float16. Construction does CheckHostTensor's checks. Values are not checked
// yet: RefuseNan does that.
class HeadInput {
 public:
  static constexpr int64_t kAllRows = std::numeric_limits<int64_t>::max();

  // A converted copy lies in `memory`, made by the loop of `implementation`.
  HeadInput(const TensorSpec& spec, const ConstTensorView& view, std::vector<float>& memory,
            Implementation implementation = Implementation::kScalar);
  HeadInput(const HeadInput&) = delete;
  HeadInput& operator=(const HeadInput&) = delete;

  // Throws kInvalidArgument with the first element that is NaN. used_rows: only so many of the
  // first rows count; what the others hold does not matter.
  void RefuseNan(int64_t used_rows = kAllRows) const;
  // The same for the first `columns` of all rows.
  void RefuseNanInColumns(int64_t columns) const;

  std::span<const float> values() const noexcept { return values_; }
  const float* row(int64_t index) const noexcept { return values_.data() + index * row_length(); }
  // The first four numbers of a row.
  BoxXyxy Box(int64_t index) const noexcept {
    const float* numbers = row(index);
    return {numbers[0], numbers[1], numbers[2], numbers[3]};
  }
  int64_t rows() const noexcept { return shape_[0]; }
  int64_t row_length() const noexcept { return shape_[1]; }

 private:
  std::string_view name_;
  std::span<const float> values_;
  std::array<int64_t, 2> shape_{1, 1};
};

// An input of whole numbers, int32 or int64, in the caller's memory. Construction does
// CheckHostTensor's checks.
class IntegerInput {
 public:
  IntegerInput(const TensorSpec& spec, const ConstTensorView& view);

  int64_t size() const noexcept { return size_; }
  int64_t operator[](int64_t index) const noexcept {
    return is_wide_ ? static_cast<const int64_t*>(data_)[index]
                    : static_cast<const int32_t*>(data_)[index];
  }

 private:
  const void* data_;
  int64_t size_;
  bool is_wide_;
};

}  // namespace endcap
