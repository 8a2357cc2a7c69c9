#pragma once

#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "bindings/convert.h"
#include "bindings/part_results.h"
#include "endcap/postprocess.h"

namespace endcap::python {

// The items of one caller: head, the tensors of HeadInputs, each [B, ...]; geometry [B,8], empty or
// None; status [B], empty or None; out, the tensors of PostprocessOutputs, each [B, ...], or None
// for one that is not wanted; whether the run lengths of masks are.
using Dense = py::array_t<float, py::array::c_style>;
using StatusRows = py::array_t<int32_t, py::array::c_style>;
using HeadPart = std::tuple<std::vector<py::array>, std::optional<Dense>, std::optional<StatusRows>,
                            std::vector<std::optional<py::array>>, bool>;

// Heads of several callers, seen as one batch of views. The parts must outlive it. Throws
// kInvalidArgument where the arrays of a part differ in their number of rows.
class HeadBatch {
 public:
  explicit HeadBatch(std::vector<HeadPart>& parts);

  std::span<const PostprocessInput> inputs() const noexcept { return inputs_; }
  std::span<const PostprocessOutput> outputs() const noexcept { return outputs_; }

  const PartResults& results() const noexcept { return results_; }

 private:
  void Add(HeadPart& part);

  std::vector<PostprocessInput> inputs_;
  std::vector<PostprocessOutput> outputs_;
  PartResults results_;
};

}  // namespace endcap::python
