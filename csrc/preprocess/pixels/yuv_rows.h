#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "common/color_conversion.h"
#include "common/row_band.h"
#include "endcap/image_view.h"
#include "endcap/implementation.h"
#include "preprocess/pixels/yuv_planes.h"

namespace endcap {

// Makes pixels of single rows of an image in YUV: R, G, B, or gray, which is luma at full range.
// Chroma is upsampled by the filter of chroma_upsampling.h. Keeps a few rows.
class YuvRows {
 public:
  // The image is checked and outlives this. columns: those that are made, inside the image.
  // channels: 1, 3, or 4, the last of which means nothing.
  YuvRows(Implementation implementation, const ImageView& image, int channels,
          const ColumnSpan& columns);

  // The pixels of `columns` of row y. kRowSlackBytes after them may be read, until the next call.
  const uint8_t* Make(int y);

 private:
  // Rows of Cb and Cr, apart, as far as `columns` need them.
  struct ChromaRow {
    int y = -1;
    std::array<std::vector<uint8_t>, 2> samples;
  };

  void MakeGray(int y);
  void MakeScalar(int y);
  void MakeSimd(int y);
  const ChromaRow& ReadChroma(int y);
  void MakeDoubled(const ChromaRow& near, const ChromaRow& far);
  void MakeFull(const ChromaRow& near, const ChromaRow& far, bool odd_row);

  Implementation implementation_;
  YuvPlanes planes_;
  YuvCoefficients coefficients_;
  bool jfif_;  // the colors of a JPEG, which have vector code of their own
  int channels_;
  ColumnSpan columns_;
  int made_begin_;    // of `columns`, rounded down to where two of them share chroma
  int chroma_begin_;  // samples of chroma that are needed, with neighbours
  int chroma_count_;
  std::vector<uint8_t> pixels_;
  // The vector code reads past the end of rows, so they are copied to where it may.
  std::vector<uint8_t> luma_;
  std::array<ChromaRow, 4> chroma_;  // row y in place y % 4: two rows use three neighbours
  std::array<std::vector<int16_t>, 2> sums_;
  std::array<std::vector<uint8_t>, 2> blended_;
};

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
