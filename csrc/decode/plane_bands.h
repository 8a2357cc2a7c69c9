#pragma once

#include <cstdint>
#include <optional>

#include "decode/libjpeg_session.h"
#include "endcap/decode.h"

namespace endcap {

// How the chroma planes of a file come to full size; kGray: there are none.
enum class ChromaUpsampling { kGray, kNone, kColumns, kRows, kColumnsAndRows };

// The upsampling that libjpeg-turbo would do itself, for a session whose output size is settled.
// Nothing where these functions cannot do the same: other colors and samplings, and planes that are
// too small for its filter.
std::optional<ChromaUpsampling> UpsamplingOf(const jpeg_decompress_struct& info);

// Reads the planes of a session that was started raw, and makes R, G, B of the rows that `sink`
// needs, one band a row. The sink was given `format`. Returns the nanoseconds spent in the decoder:
// upsampling and color conversion are not among them.
int64_t PlanesToBands(LibjpegSession& session, ChromaUpsampling upsampling,
                      const BandFormat& format, BandSink& sink);

}  // namespace endcap
