#include "box_decode/head_input.h"

#include <algorithm>
#include <limits>
#include <string>

#include "common/fail.h"
#include "common/half.h"

namespace endcap {
namespace {

template <typename Shape>
std::string ShapeText(const Shape& shape, int rank) {
  std::string text;
  for (int i = 0; i < rank; ++i) {
    const int64_t size = shape[static_cast<size_t>(i)];
    text += (i > 0 ? ", " : "") + (size < 0 ? "*" : std::to_string(size));
  }
  return "[" + text + "]";
}

void CheckShape(const TensorSpec& spec, const ConstTensorView& view) {
  bool fits = view.rank == spec.rank;
  for (int i = 0; fits && i < spec.rank; ++i) {
    const auto axis = static_cast<size_t>(i);
    fits = spec.shape[axis] < 0 ? view.shape[axis] >= 0 : view.shape[axis] == spec.shape[axis];
  }
  if (!fits) {
    FailArgument(spec.name, " has shape ", ShapeText(view.shape, view.rank),
                 ": head, num_classes and the family's own parameters ask for ",
                 ShapeText(spec.shape, spec.rank));
  }
  if (view.data == nullptr && view.size() > 0) FailArgument(spec.name, " has no data");
  if (view.size() > std::numeric_limits<uint32_t>::max()) {
    Fail(ErrorCode::kUnsupported, spec.name, " has ", view.size(), " elements: at most ",
         std::numeric_limits<uint32_t>::max(), " can be read");
  }
}

}  // namespace

void CheckHeadTensor(const TensorSpec& spec, const ConstTensorView& view) {
  CheckShape(spec, view);
  const std::span<const DType> others = OtherDTypes(spec);
  if (view.dtype != spec.dtype && std::ranges::find(others, view.dtype) == others.end()) {
    std::string names(DTypeName(spec.dtype));
    for (const DType other : others) names.append(" or ").append(DTypeName(other));
    FailArgument(spec.name, " is ", DTypeName(view.dtype), ": give ", names);
  }
  // A GPU's error for this would end all its work in the process.
  if (view.device == Device::kCuda && !IsAligned(view)) {
    FailArgument(spec.name, " does not begin at a multiple of its element's size");
  }
}

void CheckHostTensor(const TensorSpec& spec, const ConstTensorView& view) {
  CheckHeadTensor(spec, view);
  if (view.device == Device::kCpu) return;
  Fail(ErrorCode::kUnsupported, spec.name,
       " is in GPU memory; this implementation reads CPU memory only");
}

const float* HeadValues::AsFloats(Implementation implementation, std::vector<float>& memory) const {
  if (!is_half_) return floats();
  memory.resize(size_);
  HalvesToFloats({halves(), size_}, implementation, memory.data());
  return memory.data();
}

HeadInput::HeadInput(const TensorSpec& spec, const ConstTensorView& view)
    : name_(spec.name), values_(view), shape_{view.shape[0], view.rank > 1 ? view.shape[1] : 1} {
  CheckHostTensor(spec, view);
}

HeadInput::HeadInput(const TensorSpec& spec, const ConstTensorView& view,
                     std::vector<float>& memory, Implementation implementation)
    : HeadInput(spec, view) {
  values_ = HeadValues(values_.AsFloats(implementation, memory), values_.size(), false);
}

const float* HeadInput::ReadRow(int64_t index, std::vector<float>& memory) const {
  const auto length = static_cast<size_t>(row_length());
  return values_.Part(static_cast<size_t>(index) * length, length)
      .AsFloats(Implementation::kSimd, memory);
}

void HeadInput::RefuseNan(int64_t used_rows, int64_t used_columns) const {
  VisitNan(used_rows, used_columns, [&](int64_t row, int64_t column) {
    FailArgument(name_, " is NaN at element ", row * row_length() + column);
  });
}

IntegerInput::IntegerInput(const TensorSpec& spec, const ConstTensorView& view)
    : data_(view.data), is_wide_(view.dtype == DType::kInt64) {
  CheckHostTensor(spec, view);
}

}  // namespace endcap
