#pragma once

#include <optional>

#include "triton_util/in_flight.h"
#include "triton_util/input_tensor.h"
#include "triton_util/triton_api.h"

namespace endcap::triton {

// A request of the server's with the memory of its images, shared by its cascade and by the calls
// that read them. Given back with the last of these, which an instance waits for.
class HeldRequest {
 public:
  HeldRequest() = default;
  ~HeldRequest();
  HeldRequest(const HeldRequest&) = delete;
  HeldRequest& operator=(const HeldRequest&) = delete;

  // From here on the request is given back.
  void Own(TRITONBACKEND_Request* request, InFlight& under_way);

  std::optional<InputTensor> encoded;

 private:
  TRITONBACKEND_Request* request_ = nullptr;
  InFlight* under_way_ = nullptr;
};

}  // namespace endcap::triton
