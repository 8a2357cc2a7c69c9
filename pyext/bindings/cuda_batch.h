#pragma once

#include <span>
#include <vector>

#include "bindings/convert.h"
#include "bindings/cuda_tensor.h"
#include "endcap/postprocess.h"

namespace endcap::python {

// A batch of heads whose results are device memory, seen as views. The arrays must outlive it.
// Throws kInvalidArgument where they differ in their number of rows.
class CudaBatch {
 public:
  // head: the tensors of HeadInputs, each [B, ...], and geometry [B,8] or None: CudaTensors or
  // NumPy's arrays; status [B] or empty; out: the tensors of PostprocessOutputs, each [B, ...].
  CudaBatch(const py::list& head, const py::object& geometry, const py::array_t<int32_t>& status,
            const std::vector<CudaTensor>& out);

  std::span<const PostprocessInput> inputs() const noexcept { return inputs_; }
  std::span<const PostprocessOutput> outputs() const noexcept { return outputs_; }
  // Where the device memory comes from.
  const std::vector<CudaTarget>& targets() const noexcept { return targets_; }

 private:
  void RequireRows(int64_t rows) const;
  void AddHead(py::handle part);
  void AddGeometry(const CudaTensor& geometry);
  void AddGeometry(const py::array_t<float>& geometry);
  void AddStatus(const py::array_t<int32_t>& status);
  void AddOutput(const CudaTensor& out);

  std::vector<PostprocessInput> inputs_;
  std::vector<PostprocessOutput> outputs_;
  std::vector<CudaTarget> targets_;
};

// Throws what differing rows are.
[[noreturn]] void FailRows();

}  // namespace endcap::python
