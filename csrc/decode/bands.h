#pragma once

#include "common/row_band.h"
#include "decode/crew.h"
#include "endcap/decode.h"

namespace endcap {

// Width and height of the decoded image under `options`, before orientation.
BandFormat DecodedFormat(const ImageHeader& header, const DecodeOptions& options) noexcept;

// Decodes to libjpeg-turbo's default pixels, or those of another format's decoder, and passes the
// rows, as stored in the file, to `sink`. Samples of 16 bits keep their upper 8, color profiles and
// gamma are ignored. `header` must come from ReadHeader on the same bytes, with the same Damaged.
// Throws kCorruptImage for truncated and damaged data; kUnsupported.
//
// If the sink needs rows of the last MCU row, a sequential file of one scan without an end marker
// also counts as truncated when bytes follow its last MCU, or when it ends in zeros, because
// padding decodes like image data. With a sink that stops earlier this is not detected.
//
// Implementations, of JPEGs; files of other formats are decoded in one way. decode_scalar is
// libjpeg-turbo. decode_simd decodes planes, by libjpeg-turbo only where a file is not what the
// standard has, and makes pixels of the rows that the sink needs; they are the same. Both leave out
// the inverse DCT of rows that the sink does not need.
//
// crew: threads that share the decoding; null: there are none. decode_simd uses it.
DecodeReport DecodeToBands(const ImageView& image, const ImageHeader& header,
                           const DecodeOptions& options, BandSink& sink, Crew* crew = nullptr);

}  // namespace endcap
