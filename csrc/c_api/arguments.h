#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "endcap/c_api.h"
#include "endcap/params.h"
#include "endcap/tensor_view.h"

namespace endcap::c_api {

[[noreturn]] void FailNull(const char* name);

// Throws kInvalidArgument, naming the argument, where it is NULL.
template <typename T>
void Require(const T* argument, const char* name) {
  if (argument == nullptr) FailNull(name);
}

// Throws kInvalidArgument for more items than a run can take, and for an array that is NULL though
// it has items.
void RequireArray(const void* array, const char* name, size_t count);

// Throws kInvalidArgument for NULL; everything else is for the stage's own parser to say.
ParameterList ReadParameters(const endcap_parameter* parameters, size_t count);

// Throws kInvalidArgument for a number that is neither ENDCAP_CPU nor one of a GPU.
void CheckDevice(int32_t device);

// Throws kInvalidArgument for a stream that a handle on CPU memory has no use for.
void CheckStream(int32_t device, const void* stream);

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

}  // namespace endcap::c_api
