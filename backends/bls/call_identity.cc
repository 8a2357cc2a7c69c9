#include "bls/call_identity.h"

#include <algorithm>
#include <string>

namespace endcap::triton {

void Identify(InnerCall& call, const CascadeJob& job, const bls::Range& items,
              std::span<const size_t> owners) {
  std::string ids;
  uint64_t timeout_us = 0;
  bool all_have_timeouts = true;
  for (const bls::Range& share : bls::SplitRange(items, owners)) {
    const CascadeRequest& request = job.requests[owners[share.first]];
    call.Keep(request.held);
    if (!request.id.empty()) ids.append(ids.empty() ? "" : ",").append(request.id);
    timeout_us = std::max(timeout_us, request.timeout_us);
    all_have_timeouts = all_have_timeouts && request.timeout_us > 0;
  }
  if (!ids.empty()) call.SetId(ids);
  if (all_have_timeouts) call.SetTimeout(timeout_us);
}

}  // namespace endcap::triton
