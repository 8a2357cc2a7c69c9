// The arithmetic that the GPU's kernel does per sample, against the functions of the CPU
// implementations.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "common/chroma_upsampling.h"
#include "common/color_conversion.h"
#include "common/row_band.h"
#include "common/ycc_rows_simd.h"
#include "endcap/implementation.h"
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
  constexpr YuvCoefficients jfif = MakeYuvCoefficients(YuvMatrix::kBt601, YuvRange::kFull);
  for (int chroma = 0; chroma < 65536; ++chroma) {
    std::fill(cb.begin(), cb.end(), static_cast<uint8_t>(chroma & 255));
    std::fill(cr.begin(), cr.end(), static_cast<uint8_t>(chroma >> 8));
    YccToRgb(y.data(), cb.data(), cr.data(), 256, 3, rgb.data());
    for (size_t i = 0; i < 256; ++i) {
      const Rgb8 pixel = YuvPixelToRgb(jfif, static_cast<int>(i), chroma & 255, chroma >> 8);
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

}  // namespace
}  // namespace endcap
