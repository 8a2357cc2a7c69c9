#pragma once

#include <cstdint>
#include <span>

#include "endcap/preprocess.h"

namespace endcap {

// The regions [first, first + statuses.size()) of one image into their outputs. A bad region gets
// its status and a blank tensor. Throws Error when the image is bad; the outputs are then
// undefined. Returns the decoder that ran, kAuto for none.
JpegDecoder RoisToTensors(const PreprocessParams& params, const PreprocessInput& input,
                          size_t first, std::span<ItemStatus> statuses, DecodeReport& report);

}  // namespace endcap
