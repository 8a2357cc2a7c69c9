#include "c_api/arguments.h"

#include <algorithm>
#include <limits>

#include "common/fail.h"

namespace endcap::c_api {
namespace {

static_assert(static_cast<int32_t>(DType::kUint8) == ENDCAP_UINT8);
static_assert(static_cast<int32_t>(DType::kInt8) == ENDCAP_INT8);
static_assert(static_cast<int32_t>(DType::kInt32) == ENDCAP_INT32);
static_assert(static_cast<int32_t>(DType::kFloat16) == ENDCAP_FLOAT16);
static_assert(static_cast<int32_t>(DType::kFloat32) == ENDCAP_FLOAT32);
static_assert(static_cast<int32_t>(DType::kInt64) == ENDCAP_INT64);
static_assert(TensorView::kMaxRank == ENDCAP_MAX_RANK);

// No machine has an array of more, and products of sizes stay far from overflow.
constexpr int64_t kMaxElements = int64_t{1} << 48;

}  // namespace

void Require(const void* argument, const char* name) {
  if (argument == nullptr) FailArgument(name, " is NULL");
}

void RequireArray(const void* array, const char* name, size_t count) {
  if (count > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    FailArgument("count is ", count, ": at most ", std::numeric_limits<int32_t>::max(),
                 " items can be handled");
  }
  if (count > 0) Require(array, name);
}

ParameterList ReadParameters(const endcap_parameter* parameters, size_t count) {
  RequireArray(parameters, "parameters", count);
  ParameterList list;
  list.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const auto& [name, value] = parameters[i];
    if (name == nullptr) FailArgument("parameter ", i, " has no name");
    if (value == nullptr) FailArgument("the value of parameter '", name, "' is NULL");
    list.emplace_back(name, value);
  }
  return list;
}

DeviceId ReadDevice(int32_t device) {
  if (device < ENDCAP_CPU) {
    FailArgument("device is ", device, ": give ", ENDCAP_CPU,
                 " for the CPU, or the number of a GPU");
  }
  return device == ENDCAP_CPU ? DeviceId{} : DeviceId{Device::kCuda, device};
}

void CheckStream(int32_t device, const void* stream) {
  if (device == ENDCAP_CPU && stream != nullptr) {
    FailArgument("the handle works on CPU memory and takes no stream: give NULL");
  }
}

endcap_tensor_spec WriteSpec(const TensorSpec& spec, const char* name) {
  endcap_tensor_spec written = {name, static_cast<int32_t>(spec.dtype), spec.rank, {}};
  std::ranges::copy(spec.shape, written.shape);
  return written;
}

TensorView ReadTensor(const endcap_tensor& tensor, int32_t device, const std::string& what) {
  if (tensor.dtype < ENDCAP_UINT8 || tensor.dtype > ENDCAP_INT64) {
    FailArgument(what, " has dtype ", tensor.dtype, ": give ", int{ENDCAP_UINT8}, " to ",
                 int{ENDCAP_INT64}, ", an endcap_dtype");
  }
  if (tensor.rank < 0 || tensor.rank > ENDCAP_MAX_RANK) {
    FailArgument(what, " has rank ", tensor.rank, ": give 0 to ", ENDCAP_MAX_RANK);
  }
  TensorView view;
  view.data = tensor.data;
  view.dtype = static_cast<DType>(tensor.dtype);
  view.rank = tensor.rank;
  int64_t elements = 1;
  for (int i = 0; i < tensor.rank; ++i) {
    const int64_t side = tensor.shape[i];
    if (side < 0) FailArgument(what, " has a side of ", side, ": give each from 0");
    if (side > kMaxElements || (side != 0 && elements > kMaxElements / side)) {
      FailArgument(what, " has a side of ", side, " in ", tensor.rank,
                   " dims, and no array is that large: give the shape of its data");
    }
    elements *= side;
    view.shape[static_cast<size_t>(i)] = side;
  }
  if (tensor.on_gpu != 0) {
    view.device = Device::kCuda;
    view.device_id = device;
  }
  return view;
}

SpecRows::SpecRows(std::span<const TensorSpec> specs) {
  for (const TensorSpec& spec : specs) names_.emplace_back(spec.name);
  for (size_t i = 0; i < specs.size(); ++i) rows_.push_back(WriteSpec(specs[i], names_[i].c_str()));
}

}  // namespace endcap::c_api
