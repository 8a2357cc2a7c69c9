// The arithmetic that the GPU's kernel does per sample, against the functions of the CPU
// implementations.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "common/chroma_upsampling.h"
#include "common/color_conversion.h"
#include "common/ycc_rows_simd.h"
#include "endcap/implementation.h"
#include "endcap/row_band.h"
#include "jpeg_writer.h"
#include "preprocess/pixels/yuv_rows.h"
#include "preprocess/resize/resize_arithmetic.h"

namespace endcap {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes Row(int width) { return Bytes(static_cast<size_t>(width) + kRowSlackBytes); }

TEST(YccArithmetic, EqualsTheVectorCodeForEveryColor) {
  if (SimdTargets().empty()) GTEST_SKIP() << "this CPU has no SIMD target";
  Bytes y = Row(256);
  for (size_t i = 0; i < 256; ++i) y[i] = static_cast<uint8_t>(i);
  Bytes cb = Row(256);
  Bytes cr = Row(256);
  Bytes rgb = Row(3 * 256);
  for (int chroma = 0; chroma < 65536; ++chroma) {
    std::fill(cb.begin(), cb.end(), static_cast<uint8_t>(chroma & 255));
    std::fill(cr.begin(), cr.end(), static_cast<uint8_t>(chroma >> 8));
    YccToRgb(y.data(), cb.data(), cr.data(), 256, 3, rgb.data());
    for (size_t i = 0; i < 256; ++i) {
      const Rgb8 pixel = YccPixelToRgb(static_cast<int>(i), chroma & 255, chroma >> 8);
      const std::array<uint8_t, 3> expected{rgb[3 * i], rgb[3 * i + 1], rgb[3 * i + 2]};
      const std::array<uint8_t, 3> result{pixel.r, pixel.g, pixel.b};
      ASSERT_EQ(result, expected) << "Y " << i << " Cb " << (chroma & 255) << " Cr "
                                  << (chroma >> 8);
    }
  }
}

TEST(YuvArithmetic, EqualsTheVectorCode) {
  if (SimdTargets().empty()) GTEST_SKIP() << "this CPU has no SIMD target";
  Bytes y = Row(256);
  for (size_t i = 0; i < 256; ++i) y[i] = static_cast<uint8_t>(i);
  Bytes cb = Row(256);
  Bytes cr = Row(256);
  Bytes rgb = Row(3 * 256);
  for (const auto matrix : {YuvMatrix::kBt601, YuvMatrix::kBt709, YuvMatrix::kBt2020}) {
    for (const auto range : {YuvRange::kFull, YuvRange::kLimited}) {
      const YuvCoefficients coefficients = MakeYuvCoefficients(matrix, range);
      for (int u = 0; u < 256; ++u) {
        for (int v = u % 5; v < 256; v += 5) {
          std::fill(cb.begin(), cb.end(), static_cast<uint8_t>(u));
          std::fill(cr.begin(), cr.end(), static_cast<uint8_t>(v));
          YuvToRgb(coefficients, y.data(), cb.data(), cr.data(), 256, 3, rgb.data());
          for (size_t i = 0; i < 256; ++i) {
            const Rgb8 pixel = YuvPixelToRgb(coefficients, static_cast<int>(i), u, v);
            ASSERT_TRUE(rgb[3 * i] == pixel.r && rgb[3 * i + 1] == pixel.g &&
                        rgb[3 * i + 2] == pixel.b)
                << "Y " << i << " Cb " << u << " Cr " << v;
          }
        }
      }
    }
  }
}

TEST(ChromaUpsampling, RowsEqualTheVectorCode) {
  if (SimdTargets().empty()) GTEST_SKIP() << "this CPU has no SIMD target";
  Bytes near = Row(256);
  Bytes far = Row(256);
  Bytes blended = Row(256);
  for (size_t i = 0; i < 256; ++i) near[i] = static_cast<uint8_t>(i);
  for (int value = 0; value < 256; ++value) {
    std::fill(far.begin(), far.end(), static_cast<uint8_t>(value));
    for (const bool odd : {false, true}) {
      BlendRowsToBytes(near.data(), far.data(), 256, odd ? 2 : 1, blended.data());
      for (int i = 0; i < 256; ++i) {
        ASSERT_EQ(UpsampleRow(i, value, odd), blended[static_cast<size_t>(i)]);
      }
    }
  }
}

// Both with chroma in half the columns: colors are compared, since the vector code makes nothing
// else of it.
TEST(ChromaUpsampling, ColumnsEqualTheVectorCodeAtEveryWidth) {
  if (SimdTargets().empty()) GTEST_SKIP() << "this CPU has no SIMD target";
  const testing::Bytes noise = testing::MakePixels(64, 64, 3);
  for (const auto upsampling : {ChromaUpsampling::kColumns, ChromaUpsampling::kColumnsAndRows}) {
    const bool blended = HasRowContext(upsampling);
    for (int width = 5; width <= 48; ++width) {
      const int chroma_width = (width + 1) / 2;
      constexpr int kChromaHeight = 3;
      const int height = blended ? 2 * kChromaHeight : kChromaHeight;
      const uint8_t* luma = noise.data();
      const uint8_t* cb = noise.data() + 2000;
      const uint8_t* cr = noise.data() + 5000;
      for (int y = 0; y < height; ++y) {
        const auto sums = [&](const uint8_t* plane) {
          std::vector<int16_t> row(static_cast<size_t>(chroma_width) + 2 + kRowSlackBytes);
          const int near = blended ? y / 2 : y;
          const uint8_t* from = plane + chroma_width * near;
          if (blended) {
            BlendRows(from, plane + chroma_width * FarChromaRow(y, kChromaHeight), chroma_width,
                      row.data() + 1);
          } else {
            CopyRow(from, chroma_width, row.data() + 1);
          }
          row[0] = row[1];
          row[static_cast<size_t>(chroma_width) + 1] = row[static_cast<size_t>(chroma_width)];
          return row;
        };
        Bytes expected = Row(3 * width);
        DoubleYccToRgb(luma, sums(cb).data() + 1, sums(cr).data() + 1, width, blended, 3,
                       expected.data());
        for (int x = 0; x < width; ++x) {
          const auto chroma = [&](const uint8_t* plane) {
            return UpsampleChroma(upsampling, {plane, chroma_width, 1, chroma_width, kChromaHeight},
                                  x, y);
          };
          const Rgb8 pixel = YccPixelToRgb(luma[x], chroma(cb), chroma(cr));
          const uint8_t* want = expected.data() + ptrdiff_t{3} * x;
          ASSERT_TRUE(pixel.r == want[0] && pixel.g == want[1] && pixel.b == want[2])
              << "width " << width << " pixel " << x << "," << y;
        }
      }
    }
  }
}

TEST(ResizeArithmetic, OpencvsVerticalSumIsThatOfItsTerms) {
  for (int a = 0; a <= 255 * kOpencvOne; a += 977) {
    for (int b = 0; b <= 255 * kOpencvOne; b += 991) {
      for (const int weight : {0, 1, 513, 1024, 2047, 2048}) {
        // The sum as OpenCV writes it.
        const int sum = (((kOpencvOne - weight) * (a >> 4)) >> 16) + ((weight * (b >> 4)) >> 16);
        ASSERT_EQ(OpencvVertical(a, b, kOpencvOne - weight, weight),
                  static_cast<uint8_t>((sum + 2) >> 2));
        ASSERT_EQ(OpencvVerticalRound(OpencvVerticalTerm(a, kOpencvOne - weight) +
                                      OpencvVerticalTerm(b, weight)),
                  OpencvVertical(a, b, kOpencvOne - weight, weight));
      }
    }
  }
}

}  // namespace
}  // namespace endcap
