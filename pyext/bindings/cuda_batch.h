#pragma once

#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "bindings/convert.h"
#include "bindings/cuda_tensor.h"
#include "bindings/part_results.h"
#include "endcap/postprocess.h"

namespace endcap::python {

// The items of one caller: head, the tensors of HeadInputs, each [B, ...], and geometry [B,8] or
// None: CudaTensors or NumPy's arrays; status [B], empty or None; out, the tensors of
// PostprocessOutputs, each [B, ...], or None for one that is not wanted; whether the run lengths of
// masks are.
using CudaPart =
    std::tuple<py::list, py::object, std::optional<py::array_t<int32_t, py::array::c_style>>,
               std::vector<std::optional<CudaTensor>>, bool>;

// Heads of several callers whose results are device memory, seen as one batch of views. The parts
// must outlive it. Throws kInvalidArgument where the arrays of a part differ in their number of
// rows.
class CudaBatch {
 public:
  explicit CudaBatch(const std::vector<CudaPart>& parts);

  std::span<const PostprocessInput> inputs() const noexcept { return inputs_; }
  std::span<const PostprocessOutput> outputs() const noexcept { return outputs_; }
  const PartResults& results() const noexcept { return results_; }
  // Where the device memory comes from.
  const std::vector<CudaTarget>& targets() const noexcept { return targets_; }

 private:
  // Of the part that is being added: its items.
  std::span<PostprocessInput> Inputs() noexcept { return std::span(inputs_).subspan(begin_); }
  std::span<PostprocessOutput> Outputs() noexcept { return std::span(outputs_).subspan(begin_); }

  void Add(const CudaPart& part);
  void RequireRows(int64_t rows) const;
  void AddHead(py::handle tensor);
  void AddGeometry(const CudaTensor& geometry);
  void AddGeometry(const py::array_t<float>& geometry);
  void AddStatus(const py::array_t<int32_t>& status);
  void AddOutput(const std::optional<CudaTensor>& out);

  size_t begin_ = 0;
  std::vector<PostprocessInput> inputs_;
  std::vector<PostprocessOutput> outputs_;
  std::vector<CudaTarget> targets_;
  PartResults results_;
};

// Throws what differing rows are.
[[noreturn]] void FailRows();

}  // namespace endcap::python
