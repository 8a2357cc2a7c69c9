#pragma once

#include <cstdint>

#include "common/chroma_upsampling.h"
#include "decode/libjpeg_session.h"
#include "decode/plane_decoder.h"
#include "endcap/decode.h"

namespace endcap {

// The two ways of DecodeToBands for a JPEG. The decoder was started and the sink was given
// `format`. Both return the nanoseconds spent in the decoder, without upsampling, color conversion
// and the sink.

// decode_scalar, and images whose planes endcap cannot convert: reads the library's rows, in bands
// of several rows. Not for a raw session.
int64_t RowsToBands(LibjpegSession& session, const BandFormat& format, BandSink& sink);

// decode_simd: reads planes and converts the rows that `sink` needs to RGB or gray, one row a band.
// upsampling: the decoder's. ahead: where a helper may read ahead; may be null.
int64_t PlanesToBands(PlaneDecoder& decoder, ChromaUpsampling upsampling, const BandFormat& format,
                      BandSink& sink, ReadAhead* ahead);

}  // namespace endcap
