#pragma once

#include <span>

#include "bls/cascade_job.h"
#include "bls/ranges.h"

namespace endcap::triton {

// Gives a call the ids of the requests that its items belong to, so that log lines of the model
// that is called name them, and the longest of their timeouts, if all have one.
void Identify(InnerCall& call, const CascadeJob& job, const bls::Range& items,
              std::span<const size_t> owners);

}  // namespace endcap::triton
