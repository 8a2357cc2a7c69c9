#pragma once

#include "endcap/implementation.h"

namespace endcap {

// The implementation that a run of `stage` on the CPU takes now: the forced one, else the best that
// is available. Notes it as the stage's last. Throws kUnsupported when the forced implementation is
// not available, and when it is the GPU's.
Implementation SelectImplementation(Stage stage);

// Notes `implementation` as the stage's last: for runs on a GPU, which their caller chooses by the
// device.
void NoteRun(Stage stage, Implementation implementation) noexcept;

// Throws kInvalidArgument when ENDCAP_SIMD_TARGET names nothing that this CPU has.
void CheckSimdTargetEnvironment();

}  // namespace endcap
