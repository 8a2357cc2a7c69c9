#pragma once

#include <cstdint>

namespace endcap {

// libjpeg-turbo's default ("fancy") chroma upsampling and its YCbCr to RGB conversion on single
// rows, in vector code (Highway), equal to the library's bit for bit. Source: T.871 for the colors;
// the triangle filter and its roundings are those of libjpeg(-turbo)'s jdsample.c and jdcolor.c.
//
// All read and write past the end of rows by less than kRowSlackBytes (a row of sums: twice that).
// `sums` are int16 with one more element before the first and one after the last.

// 3 * near + far: the vertical half of the filter; width samples.
void BlendRows(const uint8_t* near, const uint8_t* far, int width, int16_t* sums);

// The samples themselves as sums, where there is nothing to do vertically.
void CopyRow(const uint8_t* row, int width, int16_t* sums);

// Twice as many samples as sums: each is 3/4 of its own sum and 1/4 of the neighbour on its side.
// `blended`: the sums are BlendRows's, 4 times the samples. sums[-1] and sums[width] are set here.
void DoubleColumns(int16_t* sums, int width, bool blended, uint8_t* out);

// (3 * near + far + bias) / 4, rounded down: where only the rows are subsampled.
void BlendRowsToBytes(const uint8_t* near, const uint8_t* far, int width, int bias, uint8_t* out);

// Full-range BT.601, as JFIF has it, to R, G, B of three bytes a pixel, or of four (the last means
// nothing).
void YccToRgb(const uint8_t* y, const uint8_t* cb, const uint8_t* cr, int width, int channels,
              uint8_t* out);

}  // namespace endcap
