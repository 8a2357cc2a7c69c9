#pragma once

#include "bls/cascade_job.h"

namespace endcap::triton {

// Step 5: fills the response to a request with the outputs that it wants. Throws InnerError where
// the model that detects has not given one of them, ApiError.
void WriteAnswer(CascadeJob& job, CascadeRequest& request,
                 const ExecutionContext& execution_context, bool batched);

}  // namespace endcap::triton
