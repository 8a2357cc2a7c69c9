#pragma once

#include <cstdint>

#include "common/chroma_upsampling.h"
#include "decode/libjpeg_session.h"
#include "endcap/decode.h"

namespace endcap {

// The two implementations of DecodeToBands. The session was started and the sink was given
// `format`. Both return the nanoseconds spent in the decoder, without upsampling, color conversion
// and the sink.

// decode_scalar, and images whose planes endcap cannot convert: reads the library's rows, in bands
// of several rows. Not for a raw session.
int64_t RowsToBands(LibjpegSession& session, const BandFormat& format, BandSink& sink);

// decode_simd: reads the planes of a raw session and converts the rows that `sink` needs to RGB,
// one row a band. `upsampling`: GetUpsampling of the session.
int64_t PlanesToBands(LibjpegSession& session, ChromaUpsampling upsampling,
                      const BandFormat& format, BandSink& sink);

}  // namespace endcap
