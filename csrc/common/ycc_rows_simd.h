#pragma once

#include <cstdint>

namespace endcap {

// libjpeg-turbo's default ("fancy") chroma upsampling and its YCbCr to RGB conversion on single
// rows, in vector code (Highway), equal to the library's bit for bit. Source: T.871 for the colors;
// the triangle filter and its roundings are those of libjpeg(-turbo)'s jdsample.c and jdcolor.c.
//
// All read and write past the end of rows by less than kRowSlackBytes.

// 3 * near + far: the vertical half of the filter; width samples.
void BlendRows(const uint8_t* near, const uint8_t* far, int width, int16_t* sums);

// The samples themselves, where there is nothing to do vertically.
void CopyRow(const uint8_t* row, int width, int16_t* sums);

// (3 * near + far + bias) / 4, rounded down: where only the rows are subsampled.
void BlendRowsToBytes(const uint8_t* near, const uint8_t* far, int width, int bias, uint8_t* out);

// Luma alone, three times, and as a fourth byte where there are four channels.
void GrayToRgb(const uint8_t* y, int width, int channels, uint8_t* out);

// Full-range BT.601, as JFIF has it, to R, G, B of three bytes a pixel, or of four (the last means
// nothing).
void YccToRgb(const uint8_t* y, const uint8_t* cb, const uint8_t* cr, int width, int channels,
              uint8_t* out);

// The same with chroma of half the columns, as sums with one more before the first and one after
// the last, the borders' own: a pixel's chroma is 3/4 of its sum and 1/4 of the neighbour on its
// side. `blended`: the sums are BlendRows's, 4 times the samples.
void DoubleYccToRgb(const uint8_t* y, const int16_t* cb, const int16_t* cr, int width, bool blended,
                    int channels, uint8_t* out);

}  // namespace endcap
