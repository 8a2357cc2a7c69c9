#pragma once

#include <cstdint>

#include "common/yuv_arithmetic.h"

namespace endcap {

// Single rows of YUV pixels in vector code (Highway), equal to yuv_arithmetic.h and
// chroma_upsampling.h bit for bit; common/ycc_rows_simd.h has the rest. All but SplitPairs read and
// write past the end of rows by less than kRowSlackBytes.

// Bytes that alternate, `count` pairs of them, to rows of their own. Reads no byte past the pairs.
void SplitPairs(const uint8_t* pairs, int count, uint8_t* first, uint8_t* second);

// As YccToRgb and DoubleYccToRgb, with these coefficients.
void YuvToRgb(const YuvCoefficients& coefficients, const uint8_t* y, const uint8_t* cb,
              const uint8_t* cr, int width, int channels, uint8_t* out);
void DoubleYuvToRgb(const YuvCoefficients& coefficients, const uint8_t* y, const int16_t* cb,
                    const int16_t* cr, int width, bool blended, int channels, uint8_t* out);

}  // namespace endcap
