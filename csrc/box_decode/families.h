#pragma once

#include <span>

#include "endcap/box_decode.h"

namespace endcap {

// One function per head family; each stands in a file of its name. `inputs` has the length of
// HeadInputs(params); shapes, dtypes and values are checked by the function.
using HeadTensors = std::span<const ConstTensorView>;

void DecodeYolov5(const HeadParams& params, HeadTensors inputs, Candidates& candidates);
void DecodeYolov8(const HeadParams& params, HeadTensors inputs, Candidates& candidates);
void DecodeEnd2End(const HeadParams& params, HeadTensors inputs, Candidates& candidates);
void DecodeEfficientNms(const HeadParams& params, HeadTensors inputs, Candidates& candidates);

// box_format with the family's default filled in.
BoxFormat ResolvedBoxFormat(const HeadParams& params) noexcept;

}  // namespace endcap
