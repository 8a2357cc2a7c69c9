#pragma once

#include <array>
#include <cstdint>

#include "decode/bands.h"
#include "decode/libjpeg_session.h"
#include "decode/plane_decoder.h"

namespace endcap {

// The two ways of DecodeToBands for a JPEG. The decoder was started and the sink was given
// `format`. Both return the nanoseconds spent in the decoder, without upsampling, color conversion
// and the sink.

// decode_scalar: reads the library's rows, each a band. Not for a raw session.
int64_t RowsToBands(LibjpegSession& session, const BandFormat& format, BandSink& sink);

// decode_simd: reads planes and converts the rows that `sink` needs to RGB or gray, one row a band.
// crew: shares the decoding; may be null.
int64_t PlanesToBands(PlaneDecoder& decoder, const BandFormat& format, BandSink& sink, Crew* crew);

// Inverted CMYK (255: no ink), Adobe's convention, which Pillow and OpenCV take for granted, to RGB
// or gray without a color profile. The four samples of a pixel are at the same offset behind the
// four pointers, those of the next `step` bytes further.
void ConvertCmykRow(const std::array<const uint8_t*, 4>& ink, int step, int width, int channels,
                    uint8_t* out);

}  // namespace endcap
