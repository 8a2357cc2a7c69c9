#pragma once

#include "decode/jpeg_markers.h"
#include "endcap/decode.h"

namespace endcap {

// Throws kImageLimit when the file is longer than max_bytes.
void CheckByteLimit(size_t size_bytes, const DecodeLimits& limits);

// Throws kImageLimit when the coefficients of a progressive or multi-scan file take more than
// max_coefficient_bytes: libjpeg-turbo's arrays of whole MCUs, and EntropyDecoder's set of nonzero
// coefficients of each block of a progressive file.
void CheckCoefficientLimit(const JpegMarkers& markers, const DecodeLimits& limits);

// Throws kCorruptImage when the bytes left after the header cannot hold the claimed image: each 8x8
// block takes two bits at the least (one in a progressive file), since a Huffman code is never
// empty. So a short file cannot ask for a large allocation. Source: ITU-T T.81, F.1.2 and G.1.2.
void CheckEnoughData(const JpegMarkers& markers, size_t size_bytes);

}  // namespace endcap
