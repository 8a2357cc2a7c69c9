#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "endcap/c_api.h"
#include "endcap/error.h"
#include "endcap/params.h"
#include "endcap/tensor_view.h"

namespace endcap::c_api {

// Throws kInvalidArgument, naming the argument, where it is NULL.
void Require(const void* argument, const char* name);

// Throws kInvalidArgument for more items than a run can take, and for an array that is NULL though
// it has items.
void RequireArray(const void* array, const char* name, size_t count);

// Throws kInvalidArgument for NULL; everything else is for the stage's own parser to say.
ParameterList ReadParameters(const endcap_parameter* parameters, size_t count);

// ENDCAP_CPU, or the number of a GPU. Throws kInvalidArgument for any other number.
DeviceId ReadDevice(int32_t device);

// Throws kInvalidArgument for a stream that a handle on CPU memory has no use for.
void CheckStream(int32_t device, const void* stream);

// Returns the whole of `table` through the caller's pointers.
template <typename Row>
void ReturnRows(const std::vector<Row>& table, const Row** rows, size_t* count) {
  Require(static_cast<const void*>(rows), "rows");
  Require(count, "count");
  *rows = table.data();
  *count = table.size();
}

// `name` must live as long as the result.
endcap_tensor_spec WriteSpec(const TensorSpec& spec, const char* name);

// Throws kInvalidArgument for a dtype, rank or shape that no array has; `what` names the tensor in
// the message. device: of the handle, the memory of tensors with on_gpu.
TensorView ReadTensor(const endcap_tensor& tensor, int32_t device, const std::string& what);

// Specs with names that end in NUL.
class SpecRows {
 public:
  explicit SpecRows(std::span<const TensorSpec> specs);
  SpecRows(const SpecRows&) = delete;
  SpecRows& operator=(const SpecRows&) = delete;

  const std::vector<endcap_tensor_spec>& rows() const noexcept { return rows_; }

 private:
  std::vector<std::string> names_;
  std::vector<endcap_tensor_spec> rows_;
};

// The results of the calling thread's last calls, for endcap_last_error and endcap_item_error.

// Keeps the message; returns the code.
endcap_status KeepError(ItemStatus error) noexcept;

// The messages of a run's items, in place of those of the run before.
void KeepItemErrors(std::vector<std::string> messages) noexcept;

// The messages of what a core's run returned.
template <typename Item>
std::vector<std::string> TakeMessages(std::vector<Item>& items) {
  std::vector<std::string> messages;
  messages.reserve(items.size());
  for (Item& item : items) messages.push_back(std::move(item.status.message));
  return messages;
}

// The body of every function that can fail: no exception leaves it.
template <typename Body>
endcap_status Guarded(const Body& body) noexcept {
  try {
    body();
    return 0;
  } catch (...) {
    return KeepError(MakeStatusFromCurrentException());
  }
}

// The same for runs, which begin without items' messages.
template <typename Body>
endcap_status GuardedRun(const Body& body) noexcept {
  KeepItemErrors({});
  return Guarded(body);
}

}  // namespace endcap::c_api
