#pragma once

#include <cstdint>

#include "decode/jpeg_plane_layout.h"
#include "decode/libjpeg_session.h"
#include "endcap/decode.h"

namespace endcap {

// Reads the planes of a session that was started raw, and makes R, G, B of the rows that `sink`
// needs, one band a row. The sink was given `format`. Returns the nanoseconds spent in the decoder:
// upsampling and color conversion are not among them.
int64_t PlanesToBands(LibjpegSession& session, ChromaUpsampling upsampling,
                      const BandFormat& format, BandSink& sink);

}  // namespace endcap
