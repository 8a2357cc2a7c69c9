#pragma once

#include <cstdint>
#include <span>

#include "endcap/preprocess.h"

namespace endcap {

// The regions [first, first + statuses.size()) of one image into their outputs. A bad region gets
// its status and a blank tensor. Throws Error when the image is bad; the outputs are then
// undefined. Returns the decoder that ran, kAuto for none, and adds the nanoseconds spent in it to
// `decode_ns`.
JpegDecoder RoisToTensors(const PreprocessParams& params, const PreprocessInput& input,
                          size_t first, std::span<ItemStatus> statuses, int64_t& decode_ns);

}  // namespace endcap
