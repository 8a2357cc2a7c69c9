#include <pybind11/critical_section.h>

#include <memory>
#include <string>
#include <vector>

#include "bindings/cuda_tensor.h"
#include "bindings/dlpack.h"
#include "bindings/gil.h"
#include "endcap/error.h"

namespace endcap::python {
namespace {

using dlpack::ManagedTensor;

// What an exported capsule owns.
struct Export {
  ManagedTensor managed{};
  CudaTensor tensor;
  std::vector<int64_t> strides;  // in elements
};

uint8_t ToDlpackCode(char kind) {
  switch (kind) {
    case 'i':
      return dlpack::kInt;
    case 'u':
      return dlpack::kUint;
    case 'f':
      return dlpack::kFloat;
    case 'b':
      return dlpack::kBool;
    default:
      throw Error(ErrorCode::kInvalidArgument, "an array's dtype is none of DLPack's");
  }
}

char ToKind(const dlpack::DataType& type) {
  if (type.lanes == 1 && type.bits % 8 == 0) {
    switch (type.code) {
      case dlpack::kInt:
        return 'i';
      case dlpack::kUint:
        return 'u';
      case dlpack::kFloat:
        return 'f';
      case dlpack::kBool:
        return 'b';
      default:
        break;
    }
  }
  throw Error(ErrorCode::kInvalidArgument,
              "an array has a dtype that NumPy has not (DLPack type " + std::to_string(type.code) +
                  " of " + std::to_string(type.bits) + " bits): give float32 or float16");
}

void DeleteExport(ManagedTensor* managed) { delete static_cast<Export*>(managed->owner); }

}  // namespace

py::capsule ToDlpack(const CudaTensor& tensor, std::optional<StreamHandle> consumer,
                     const py::object& consumer_owner) {
  auto exported = std::make_unique<Export>();
  exported->tensor = tensor;
  exported->strides = tensor.StridesBytes();
  for (int64_t& stride : exported->strides) stride /= tensor.item_bytes;
  if (!consumer.has_value()) {
    ShareWithAllStreams(tensor);
  } else if (ToStream(*consumer) != tensor.target.stream) {
    AddCudaConsumer(tensor.owner, ToStream(*consumer), KeepObject(consumer_owner));
    const ReleasedGil released;
    OrderCudaAfter({tensor.target.device_id, ToStream(*consumer)}, tensor.target.stream);
  }
  ManagedTensor& managed = exported->managed;
  managed.tensor = {tensor.data,
                    {dlpack::kCuda, tensor.target.device_id},
                    static_cast<int32_t>(tensor.shape.size()),
                    {ToDlpackCode(tensor.kind), static_cast<uint8_t>(8 * tensor.item_bytes), 1},
                    exported->tensor.shape.data(),
                    exported->strides.data(),
                    0};
  managed.owner = exported.get();
  managed.deleter = DeleteExport;
  py::capsule capsule(&managed, dlpack::kFresh, [](PyObject* object) {
    if (PyCapsule_IsValid(object, dlpack::kFresh) == 0) return;  // a consumer has taken it over
    auto* unused = static_cast<ManagedTensor*>(PyCapsule_GetPointer(object, dlpack::kFresh));
    unused->deleter(unused);
  });
  static_cast<void>(exported.release());
  return capsule;
}

CudaTensor FromDlpack(const py::capsule& capsule, int device_id, StreamHandle stream) {
  // Without a GIL two threads could take over the memory of one capsule, and free it twice.
  const py::scoped_critical_section locked(capsule);
  if (PyCapsule_IsValid(capsule.ptr(), dlpack::kFresh) == 0) {
    throw Error(ErrorCode::kInvalidArgument, "a DLPack capsule was used before");
  }
  auto* managed = static_cast<ManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), dlpack::kFresh));
  const dlpack::Tensor& source = managed->tensor;
  if (source.device.type != dlpack::kCuda || source.device.id != device_id) {
    throw Error(ErrorCode::kInvalidArgument,
                "an array lies on device " + std::to_string(source.device.id) + " of DLPack type " +
                    std::to_string(source.device.type) +
                    ": give one on cuda:" + std::to_string(device_id));
  }
  CudaTensor tensor;
  tensor.kind = ToKind(source.data_type);
  tensor.item_bytes = source.data_type.bits / 8;
  tensor.shape.assign(source.shape, source.shape + source.rank);
  tensor.data = static_cast<uint8_t*>(source.data) + source.byte_offset;
  tensor.target = {device_id, ToStream(stream)};
  if (source.strides != nullptr) {
    std::vector<int64_t> strides(source.strides, source.strides + source.rank);
    for (int64_t& stride : strides) stride *= tensor.item_bytes;
    tensor.SetStrides(strides);
  }
  if (PyCapsule_SetName(capsule.ptr(), dlpack::kUsed) != 0) throw py::error_already_set();
  tensor.owner = {managed, [](void* pointer) {
                    auto* taken = static_cast<ManagedTensor*>(pointer);
                    if (taken->deleter != nullptr) taken->deleter(taken);
                  }};
  return tensor;
}

}  // namespace endcap::python
