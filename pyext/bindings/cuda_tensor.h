#pragma once

#include <pybind11/numpy.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "endcap/cuda.h"
#include "endcap/tensor_view.h"

namespace endcap::python {

namespace py = pybind11;

// The legacy default stream has two handles, 0 and 1 (cudaStreamLegacy); here it is 0.
using StreamHandle = uintptr_t;
void* ToStream(StreamHandle handle) noexcept;

// An array in device memory, or a view of one. Its contents are ready, and its memory is freed
// stream-ordered.
struct CudaTensor {
  std::shared_ptr<void> stream_owner;  // what keeps the stream; outlives `owner`
  std::shared_ptr<void> owner;         // what keeps the memory
  uint8_t* data = nullptr;
  char kind = 'f';  // as in NumPy's type strings: f, i, u, b
  int64_t item_bytes = 4;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides_bytes;  // empty: C-contiguous
  CudaTarget target;

  int64_t size() const noexcept;
  size_t size_bytes() const noexcept { return static_cast<size_t>(size() * item_bytes); }
  std::string type_string() const;                     // NumPy's: "<f4"
  std::vector<int64_t> StridesBytes() const;           // also of a C-contiguous one
  void SetStrides(const std::vector<int64_t>& bytes);  // one for each dimension
};

// Uninitialised, C-contiguous. `stream_owner` is kept as long as the memory; may be None.
CudaTensor EmptyCuda(const std::string& type_string, std::vector<int64_t> shape, int device_id,
                     StreamHandle stream, const py::object& stream_owner);

// Uninitialised, C-contiguous tensors of these shapes and type strings in one allocation.
std::vector<CudaTensor> EmptyCudaArrays(
    const std::vector<std::pair<std::vector<int64_t>, std::string>>& specs, int device_id,
    StreamHandle stream, const py::object& stream_owner);

// A copy of a C-contiguous array. Read before the call returns.
CudaTensor UploadToCuda(const py::array& array, int device_id, StreamHandle stream,
                        const py::object& stream_owner);

// Somebody else's memory, kept by `owner`.
CudaTensor BorrowCuda(StreamHandle pointer, const std::string& type_string,
                      std::vector<int64_t> shape,
                      const std::optional<std::vector<int64_t>>& strides, int device_id,
                      StreamHandle stream, py::object owner);

// A C-contiguous copy in host memory; waits for it.
py::array ToNumpy(const CudaTensor& tensor);

// The same memory in another shape of as many elements; C-contiguous tensors only.
CudaTensor Reshape(const CudaTensor& tensor, std::vector<int64_t> shape);

// `count` rows from row `begin` on, as many of them as there are; C-contiguous tensors only.
CudaTensor Rows(const CudaTensor& tensor, int64_t begin, int64_t count);

// Throws kInvalidArgument for a tensor that is not C-contiguous.
void RequireDense(const CudaTensor& tensor);

// Lets work on a stream use tensors whose own streams are others: what is enqueued there from the
// construction on comes after what fills them, and their memory goes back after what was enqueued
// there until the destruction.
class StreamOrder {
 public:
  StreamOrder(std::vector<CudaTarget> tensors, const CudaTarget& target);
  ~StreamOrder();
  StreamOrder(const StreamOrder&) = delete;
  StreamOrder& operator=(const StreamOrder&) = delete;

 private:
  std::vector<CudaTarget> others_;
  CudaTarget target_;
};

// Returns a capsule for a consumer that works on the stream `consumer`, which is made to wait;
// none: it does not wait. The memory is freed after the consumer's work: `consumer_owner` keeps its
// stream until then, see AddCudaConsumer; may be None.
py::capsule ToDlpack(const CudaTensor& tensor, std::optional<StreamHandle> consumer,
                     const py::object& consumer_owner);

// Lets any stream use the tensor's memory, which is freed after the work of all streams.
void ShareWithAllStreams(const CudaTensor& tensor);

// Keeps a Python object, which is released with the GIL held; null for None.
std::shared_ptr<void> KeepObject(py::object object);

// Takes over a capsule whose contents are ready on that stream. Throws kInvalidArgument for memory
// elsewhere than on that device.
CudaTensor FromDlpack(const py::capsule& capsule, int device_id, StreamHandle stream);

}  // namespace endcap::python
