#pragma once

#include "endcap/implementation.h"

namespace endcap {

// The path that a run of `stage` takes now: the forced one, else the best that is available. Notes
// it as the stage's last. Throws kUnsupported when the forced path is not available.
Path SelectPath(Stage stage);

// Throws kInvalidArgument when ENDCAP_SIMD_TARGET names nothing that this CPU has.
void CheckSimdTargetEnvironment();

}  // namespace endcap
