// YUV to RGB: the arithmetic against the standards, a JPEG's, and the vector code.

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "common/color_conversion.h"
#include "endcap/implementation.h"
#include "include/endcap/row_band.h"
#include "jpeg_writer.h"
#include "preprocess/pixels/yuv_rows.h"

namespace endcap {
namespace {

using testing::Bytes;

TEST(YuvArithmetic, HasTheFactorsOfTheStandards) {
  constexpr YuvCoefficients kBt601 = MakeYuvCoefficients(YuvMatrix::kBt601, YuvRange::kLimited);
  EXPECT_EQ(kBt601.offset, 16);
  EXPECT_EQ(kBt601.luma, 76309);  // 1.164384
  EXPECT_EQ(kBt601.red_cr, 104597);
  EXPECT_EQ(kBt601.green_cb, -25675);
  EXPECT_EQ(kBt601.green_cr, -53279);
  EXPECT_EQ(kBt601.blue_cb, 132201);
  constexpr YuvCoefficients kBt709 = MakeYuvCoefficients(YuvMatrix::kBt709, YuvRange::kFull);
  EXPECT_EQ(kBt709.offset, 0);
  EXPECT_EQ(kBt709.luma, 65536);
  EXPECT_NEAR(kBt709.red_cr / 65536.0, 1.5748, 1e-5);
  EXPECT_NEAR(kBt709.blue_cb / 65536.0, 1.8556, 1e-5);
  constexpr YuvCoefficients kBt2020 = MakeYuvCoefficients(YuvMatrix::kBt2020, YuvRange::kFull);
  EXPECT_NEAR(kBt2020.red_cr / 65536.0, 1.4746, 1e-5);
  EXPECT_NEAR(kBt2020.green_cb / 65536.0, -0.164553, 1e-5);
  EXPECT_NEAR(kBt2020.green_cr / 65536.0, -0.571353, 1e-5);
  EXPECT_NEAR(kBt2020.blue_cb / 65536.0, 1.8814, 1e-5);
}

TEST(YuvArithmetic, IsAJpegsForFullRangeBt601) {
  constexpr YuvCoefficients kFull = MakeYuvCoefficients(YuvMatrix::kBt601, YuvRange::kFull);
  for (int y = 0; y < 256; y += 3) {
    for (int cb = 0; cb < 256; ++cb) {
      for (int cr = 0; cr < 256; ++cr) {
        const Rgb8 a = YuvPixelToRgb(kFull, y, cb, cr);
        const Rgb8 b = YccPixelToRgb(y, cb, cr);
        ASSERT_TRUE(a.r == b.r && a.g == b.g && a.b == b.b) << y << " " << cb << " " << cr;
      }
    }
    EXPECT_EQ(YuvPixelToGray(kFull, y), y);
  }
}

TEST(YuvArithmetic, BlackWhiteAndBeyondAtLimitedRange) {
  for (const auto matrix : {YuvMatrix::kBt601, YuvMatrix::kBt709, YuvMatrix::kBt2020}) {
    const YuvCoefficients limited = MakeYuvCoefficients(matrix, YuvRange::kLimited);
    for (const auto& [y, gray] : {std::pair(0, 0), {16, 0}, {235, 255}, {255, 255}, {126, 128}}) {
      const Rgb8 rgb = YuvPixelToRgb(limited, y, 128, 128);
      EXPECT_TRUE(rgb.r == gray && rgb.g == gray && rgb.b == gray) << y;
      EXPECT_EQ(YuvPixelToGray(limited, y), gray);
    }
  }
}

TEST(YuvArithmetic, EqualsTheVectorCode) {
  if (SimdTargets().empty()) GTEST_SKIP() << "this CPU has no SIMD target";
  const auto row = [](size_t bytes) { return Bytes(bytes + kRowSlackBytes); };
  Bytes y = row(256);
  for (size_t i = 0; i < 256; ++i) y[i] = static_cast<uint8_t>(i);
  Bytes cb = row(256);
  Bytes cr = row(256);
  Bytes rgb = row(std::size_t{3} * 256);
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
