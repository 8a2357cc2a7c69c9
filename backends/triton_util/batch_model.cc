#include "triton_util/batch_model.h"

namespace endcap::triton {

Failure MakeItemFailure(const ItemStatus& status, size_t index, size_t count) {
  std::string message = status.message;
  if (count > 1) {
    message =
        "image index " + std::to_string(index) + " of " + std::to_string(count) + ": " + message;
  }
  return {ToTriton(status.code), status.code, std::move(message)};
}

}  // namespace endcap::triton
