#pragma once

#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "bindings/convert.h"
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

  // What became of every part: (status, message, truncated) of each of its items, and their run
  // lengths, none where they were not wanted.
  py::list Results(const std::vector<PostprocessItem>& items) const;

  // For every part and each of its items, as bytes; none where they were not wanted.
  std::vector<py::list> RunLengths() const;

 private:
  struct Rows {
    size_t count = 0;
    std::vector<std::vector<std::string>> rles;  // one for each row, or none
  };

  void Add(HeadPart& part, Rows& rows);

  std::vector<Rows> parts_;
  std::vector<PostprocessInput> inputs_;
  std::vector<PostprocessOutput> outputs_;
};

// (status, message, truncated) of every item.
using ItemTuple = std::tuple<int32_t, std::string, bool>;
std::vector<ItemTuple> ItemTuples(std::span<const PostprocessItem> items);

}  // namespace endcap::python
