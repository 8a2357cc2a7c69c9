#pragma once

#include "endcap/implementation.h"

namespace endcap {

// The path that a run of `stage` on the CPU takes now: the forced one, else the best that is
// available. Notes it as the stage's last. Throws kUnsupported when the forced path is not
// available, and when it is the GPU's.
Path SelectPath(Stage stage);

// Notes `path` as the stage's last: for runs on a GPU, which their caller chooses by the device.
void NoteRun(Stage stage, Path path) noexcept;

// Throws kInvalidArgument when ENDCAP_SIMD_TARGET names nothing that this CPU has.
void CheckSimdTargetEnvironment();

}  // namespace endcap
