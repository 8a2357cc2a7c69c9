#pragma once

#include <deque>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "bindings/convert.h"
#include "bindings/cuda_tensor.h"
#include "endcap/postprocess.h"

namespace endcap::python {

using StatusRows = py::array_t<int32_t, py::array::c_style>;

// The items of one caller, tensors being NumPy arrays or CudaTensors: head, the tensors of
// HeadInputs, each [B, ...]; geometry float32 [B,8], empty or None; status [B], empty or None; out,
// the tensors of PostprocessOutputs, each [B, ...], or None for one that is not wanted; whether the
// run-length encodings of masks are wanted.
using HeadPart = std::tuple<std::vector<py::object>, py::object, std::optional<StatusRows>,
                            std::vector<py::object>, bool>;

// The heads of several callers as one batch of views. The parts must outlive it. Throws
// kInvalidArgument where the tensors of a part differ in their number of rows.
class HeadBatch {
 public:
  // merges: the rows of a part are the tiles of one image, which is its only item.
  HeadBatch(const std::vector<HeadPart>& parts, bool merges);

  // Runs the batch without the GIL, on `stream` where the postprocessor works on a GPU. Work on the
  // streams of the parts' tensors is ordered before and after it.
  std::vector<PostprocessItem> Run(Postprocessor& postprocessor, StreamHandle stream) const;
  void Enqueue(Postprocessor& postprocessor, StreamHandle stream) const;

  // Allocates the first output of every item, a semantic head's map; returns the maps, NumPy arrays
  // [H,W], and an empty one where a stage before has failed. Throws as GetClassMapSize.
  py::list AllocateMaps(const PostprocessParams& params);

  // For every part and each of its items, the run-length encodings as bytes; none where they were
  // not wanted.
  std::vector<py::list> RunLengths() const;

  // For every part, (status, message, truncated, dropped) of each of its items, and RunLengths.
  py::list Results(const std::vector<PostprocessItem>& items) const;

 private:
  struct Part {
    size_t count;
    std::vector<std::vector<std::string>> rles;  // one for each item, or none
  };

  // The items of the part that is being added.
  std::span<PostprocessInput> Inputs() noexcept { return std::span(inputs_).subspan(begin_); }
  std::span<PostprocessOutput> Outputs() noexcept { return std::span(outputs_).subspan(begin_); }

  void Add(const HeadPart& part, bool merges);
  void RequireRows(int64_t rows) const;
  void AddHead(const py::object& tensor);
  void AddGeometry(const py::object& geometry);
  void AddStatus(const StatusRows& status);
  void AddOutput(const py::object& out);
  // The streams to order a call on `postprocessor` with.
  std::vector<CudaTarget> GetTargets(const Postprocessor& postprocessor) const;

  size_t begin_ = 0;
  std::vector<PostprocessInput> inputs_;
  std::vector<PostprocessOutput> outputs_;
  std::vector<CudaTarget> targets_;  // of the CudaTensors
  std::deque<Part> parts_;           // a deque, since outputs point into its elements
};

}  // namespace endcap::python
