#include "bindings/cuda_tensor.h"

#include <algorithm>
#include <utility>

#include "bindings/convert.h"
#include "bindings/gil.h"
#include "endcap/error.h"

namespace endcap::python {
namespace {

CudaTensor Describe(const std::string& type_string, std::vector<int64_t> shape,
                    const CudaTarget& target) {
  const py::dtype dtype(type_string);
  CudaTensor tensor;
  tensor.kind = dtype.kind();
  tensor.item_bytes = dtype.itemsize();
  tensor.shape = std::move(shape);
  tensor.target = target;
  return tensor;
}

[[noreturn]] void FailTooLarge() {
  throw Error(ErrorCode::kOutOfMemory, "an array on the GPU has more bytes than 64 bits count");
}

int64_t CountBytes(const CudaTensor& tensor) {
  int64_t bytes = tensor.item_bytes;
  for (const int64_t extent : tensor.shape) {
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes)) FailTooLarge();
  }
  return bytes;
}

bool IsAnother(const CudaTarget& tensor, const CudaTarget& target) noexcept {
  return tensor.device_id == target.device_id && tensor.stream != target.stream;
}

}  // namespace

void RequireDense(const CudaTensor& tensor) {
  if (tensor.strides_bytes.empty()) return;
  throw Error(ErrorCode::kInvalidArgument,
              "an array in device memory is not C-contiguous: give a contiguous copy");
}

std::shared_ptr<void> KeepObject(py::object object) {
  if (object.is_none()) return nullptr;
  return {object.release().ptr(), [](void* pointer) {
            if (IsFinalizing()) return;  // taking the GIL would end this thread
            const py::gil_scoped_acquire acquire;
            Py_DECREF(static_cast<PyObject*>(pointer));
          }};
}

void ShareWithAllStreams(const CudaTensor& tensor) {
  // cudaStreamPerThread: which stream that is depends on the thread, so it has no owner.
  AddCudaConsumer(tensor.owner, reinterpret_cast<void*>(StreamHandle{2}), nullptr);
}

void* ToStream(StreamHandle handle) noexcept {
  return handle == 1 ? nullptr : reinterpret_cast<void*>(handle);
}

int64_t CudaTensor::size() const noexcept {
  int64_t elements = 1;
  for (const int64_t extent : shape) elements *= extent;
  return elements;
}

std::string CudaTensor::type_string() const {
  return (item_bytes == 1 ? "|" : "<") + std::string(1, kind) + std::to_string(item_bytes);
}

void CudaTensor::SetStrides(const std::vector<int64_t>& bytes) {
  if (bytes.size() != shape.size()) {
    throw Error(ErrorCode::kInvalidArgument, "an array's strides and shape differ in length");
  }
  strides_bytes.clear();
  const std::vector<int64_t> dense = StridesBytes();
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] > 1 && bytes[axis] != dense[axis]) strides_bytes = bytes;
  }
  if (size() == 0) strides_bytes.clear();
}

std::vector<int64_t> CudaTensor::StridesBytes() const {
  if (!strides_bytes.empty()) return strides_bytes;
  std::vector<int64_t> strides(shape.size());
  int64_t stride = item_bytes;
  for (size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= shape[axis];
  }
  return strides;
}

std::vector<CudaTensor> EmptyCudaArrays(
    const std::vector<std::pair<std::vector<int64_t>, std::string>>& specs, int device_id,
    StreamHandle stream, const py::object& stream_owner) {
  const CudaTarget target{device_id, ToStream(stream)};
  std::vector<CudaTensor> tensors;
  std::vector<int64_t> offsets;
  int64_t end = 0;
  for (const auto& [shape, type_string] : specs) {
    tensors.push_back(Describe(type_string, shape, target));
    // Each begins where an allocation would.
    if (__builtin_add_overflow(end, 255, &end)) FailTooLarge();
    offsets.push_back(end / 256 * 256);
    if (__builtin_add_overflow(offsets.back(), CountBytes(tensors.back()), &end)) FailTooLarge();
  }
  if (end == 0) return tensors;
  const std::shared_ptr<void> kept_stream = KeepObject(stream_owner);
  const ReleasedGil released;
  const std::shared_ptr<void> memory = AllocateCuda(static_cast<size_t>(end), target, kept_stream);
  for (size_t i = 0; i < tensors.size(); ++i) {
    tensors[i].stream_owner = kept_stream;
    tensors[i].owner = memory;
    tensors[i].data = static_cast<uint8_t*>(memory.get()) + offsets[i];
  }
  return tensors;
}

CudaTensor EmptyCuda(const std::string& type_string, std::vector<int64_t> shape, int device_id,
                     StreamHandle stream, const py::object& stream_owner) {
  return EmptyCudaArrays({{std::move(shape), type_string}}, device_id, stream, stream_owner)[0];
}

CudaTensor UploadToCuda(const py::array& array, int device_id, StreamHandle stream,
                        const py::object& stream_owner) {
  const std::vector<int64_t> shape(array.shape(), array.shape() + array.ndim());
  const std::string type = py::cast<std::string>(array.dtype().attr("str"));
  CudaTensor tensor = EmptyCuda(type, shape, device_id, stream, stream_owner);
  if (tensor.size() == 0) return tensor;
  const void* data = array.data();
  const ReleasedGil released;
  CopyCuda(tensor.data, data, tensor.size_bytes(), tensor.target);
  return tensor;
}

CudaTensor BorrowCuda(StreamHandle pointer, const std::string& type_string,
                      std::vector<int64_t> shape,
                      const std::optional<std::vector<int64_t>>& strides, int device_id,
                      StreamHandle stream, py::object owner) {
  CudaTensor tensor = Describe(type_string, std::move(shape), {device_id, ToStream(stream)});
  tensor.data = reinterpret_cast<uint8_t*>(pointer);
  tensor.owner = KeepObject(std::move(owner));
  if (strides.has_value()) tensor.SetStrides(*strides);
  return tensor;
}

py::array ToNumpy(const CudaTensor& tensor) {
  RequireDense(tensor);
  py::array array(py::dtype(tensor.type_string()), tensor.shape);
  if (tensor.size() == 0) return array;
  void* data = array.mutable_data();
  const ReleasedGil released;
  CopyCuda(data, tensor.data, tensor.size_bytes(), tensor.target);
  SynchronizeCuda(tensor.target);
  return array;
}

CudaTensor Reshape(const CudaTensor& tensor, std::vector<int64_t> shape) {
  RequireDense(tensor);
  CudaTensor view = tensor;
  view.shape = std::move(shape);
  if (view.size() != tensor.size()) {
    throw Error(ErrorCode::kInvalidArgument, "an array cannot be reshaped to another size");
  }
  return view;
}

CudaTensor Rows(const CudaTensor& tensor, int64_t begin, int64_t count) {
  RequireDense(tensor);
  CudaTensor view = tensor;
  const int64_t rows = view.shape.at(0);
  begin = std::clamp<int64_t>(begin, 0, rows);
  view.shape[0] = std::clamp<int64_t>(count, 0, rows - begin);
  if (rows > 0) view.data += static_cast<int64_t>(tensor.size_bytes()) / rows * begin;
  return view;
}

StreamOrder::StreamOrder(std::vector<CudaTarget> tensors, const CudaTarget& target)
    : others_(std::move(tensors)), target_(target) {
  std::erase_if(others_, [&](const CudaTarget& other) { return !IsAnother(other, target_); });
  // Tensors of one stream are waited for together.
  const auto key = [](const CudaTarget& other) { return std::pair(other.device_id, other.stream); };
  std::ranges::sort(others_, {}, key);
  const auto again = std::ranges::unique(others_, {}, key);
  others_.erase(again.begin(), again.end());
  for (const CudaTarget& other : others_) OrderCudaAfter(target_, other.stream);
}

StreamOrder::~StreamOrder() {
  for (const CudaTarget& other : others_) {
    try {
      OrderCudaAfter(other, target_.stream);
    } catch (...) {
      // The stream is broken; the next call on it reports it.
      return;
    }
  }
}

}  // namespace endcap::python
