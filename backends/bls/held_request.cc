#include "bls/held_request.h"

#include <cstddef>
#include <cstdint>

#include "triton_util/execution.h"

namespace endcap::triton {

void HeldRequest::Own(TRITONBACKEND_Request* request, InFlight& under_way) {
  under_way.Enter(1, SIZE_MAX);
  request_ = request;
  under_way_ = &under_way;
}

HeldRequest::~HeldRequest() {
  if (request_ == nullptr) return;
  encoded.reset();
  Release(request_);
  // From here on the instance, and then the model, may go; the worker ends with the model.
  under_way_->Leave(1);
}

}  // namespace endcap::triton
