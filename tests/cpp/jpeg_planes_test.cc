#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <optional>
#include <vector>

#include "decode/planes.h"
#include "error_matchers.h"
#include "jpeg_writer.h"

namespace endcap {
namespace {

using testing::Bytes;
using testing::Encoded;
using testing::JpegOptions;
using testing::MakeJpeg;
using testing::Throws;
using testing::WithSize;

constexpr uint8_t kUntouched = 0xA5;
constexpr size_t kGuardBytes = 512;

// The planes of a file, in memory whose decode_context are watched.
struct DecodedPlanes {
  JpegPlaneLayout layout;
  Bytes memory;

  uint8_t Sample(int plane, int x, int y) const {
    const JpegPlane& p = layout.planes[static_cast<size_t>(plane)];
    x = std::clamp(x, 0, p.width - 1);
    y = std::clamp(y, 0, p.height - 1);
    EXPECT_LT(y, p.rows);
    return memory.at(kGuardBytes + p.offset_bytes + p.row_stride_bytes * static_cast<size_t>(y) +
                     static_cast<size_t>(x));
  }
};

JpegPlaneReader Open(const Bytes& file, const DecodeOptions& options, int end_row = INT_MAX) {
  return {Encoded(file), ReadHeader(Encoded(file), {}), options, end_row};
}

void ExpectUntouched(const uint8_t* bytes) {
  for (size_t i = 0; i < kGuardBytes; ++i) ASSERT_EQ(bytes[i], kUntouched) << "at " << i;
}

DecodedPlanes DecodePlanes(const Bytes& file, const DecodeOptions& options, int end_row = INT_MAX) {
  JpegPlaneReader reader = Open(file, options, end_row);
  DecodedPlanes planes;
  planes.layout = reader.layout();
  if (!planes.layout.available) return planes;
  const size_t size = planes.layout.size_bytes;
  planes.memory.assign(size + 2 * kGuardBytes, kUntouched);
  EXPECT_GT(reader.Decode(planes.memory.data() + kGuardBytes).decode_ns, 0);
  ExpectUntouched(planes.memory.data());
  ExpectUntouched(planes.memory.data() + kGuardBytes + size);
  return planes;
}

// libjpeg's triangle filter for the sample of image pixel (x, y), as jdsample.c defines it.
int UpsampledChroma(const DecodedPlanes& planes, int plane, int x, int y) {
  const ChromaUpsampling upsampling = planes.layout.upsampling;
  const bool columns = HasColumnContext(upsampling);
  const bool rows = HasRowContext(upsampling);
  const int column = columns ? x / 2 : x;
  const int row = rows ? y / 2 : y;
  const int beside = x % 2 == 0 ? column - 1 : column + 1;
  const int above_or_below = y % 2 == 0 ? row - 1 : row + 1;
  const auto vertical = [&](int c) {
    return 3 * planes.Sample(plane, c, row) + planes.Sample(plane, c, above_or_below);
  };
  if (columns && rows) {
    return (3 * vertical(column) + vertical(beside) + (x % 2 == 0 ? 8 : 7)) >> 4;
  }
  if (rows) return (vertical(column) + (y % 2 == 0 ? 1 : 2)) >> 2;
  if (!columns) return planes.Sample(plane, column, row);
  return (3 * planes.Sample(plane, column, row) + planes.Sample(plane, beside, row) +
          (x % 2 == 0 ? 1 : 2)) >>
         2;
}

int Fixed16(double factor) { return static_cast<int>(factor * 65536 + 0.5); }

uint8_t ToByte(int value) { return static_cast<uint8_t>(std::clamp(value, 0, 255)); }

// One pixel, with the 16-bit fixed-point factors of jdcolor.c.
std::array<uint8_t, 3> Pixel(const DecodedPlanes& planes, int x, int y) {
  const int luma = planes.Sample(0, x, y);
  if (planes.layout.upsampling == ChromaUpsampling::kGray) {
    return {ToByte(luma), ToByte(luma), ToByte(luma)};
  }
  const int cb = UpsampledChroma(planes, 1, x, y) - 128;
  const int cr = UpsampledChroma(planes, 2, x, y) - 128;
  constexpr int kHalf = 32768;
  return {ToByte(luma + ((Fixed16(1.402) * cr + kHalf) >> 16)),
          ToByte(luma + ((-Fixed16(0.34414) * cb - Fixed16(0.71414) * cr + kHalf) >> 16)),
          ToByte(luma + ((Fixed16(1.772) * cb + kHalf) >> 16))};
}

void ExpectPixels(const DecodedPlanes& planes, const PixelBuffer& expected, int end_row) {
  ASSERT_EQ(planes.layout.width, expected.format.width);
  ASSERT_EQ(planes.layout.height, expected.format.height);
  const auto channels = static_cast<size_t>(expected.format.channels);
  const uint8_t* pixel = expected.pixels.data();
  for (int y = 0; y < std::min(end_row, planes.layout.height); ++y) {
    for (int x = 0; x < planes.layout.width; ++x, pixel += channels) {
      const std::array<uint8_t, 3> made = Pixel(planes, x, y);
      ASSERT_EQ(std::memcmp(made.data(), pixel, channels), 0) << "at " << x << ", " << y;
    }
  }
}

// What the library does with a file of this sampling: below full size the inverse DCT itself brings
// chroma of half the columns and rows to the size of luma, and at 1/8 or for few columns there is
// no filter.
std::optional<ChromaUpsampling> ExpectedUpsampling(const JpegOptions& file, int width,
                                                   int eighths) {
  const bool columns = file.luma_columns == 2;
  const bool rows = file.luma_rows == 2;
  if (columns == rows && (!columns || eighths < 8)) return ChromaUpsampling::kNone;
  if (eighths == 1) return std::nullopt;
  if (!columns) return ChromaUpsampling::kRows;
  if ((ScaledSize(width, eighths) + 1) / 2 <= 2) return std::nullopt;
  return rows ? ChromaUpsampling::kColumnsAndRows : ChromaUpsampling::kColumns;
}

constexpr std::pair<int, int> kSizes[] = {
    {1, 1},   {1, 3},   {3, 2},   {2, 5},   {9, 7},
    {16, 16}, {17, 33}, {33, 17}, {50, 71}, {97, 130}};  // height, width

std::vector<JpegOptions> Samplings(const JpegOptions& kind) {
  std::vector<JpegOptions> samplings(4, kind);
  for (size_t i = 0; i < 4; ++i) {
    samplings[i].luma_columns = i % 2 == 0 ? 1 : 2;
    samplings[i].luma_rows = i < 2 ? 1 : 2;
  }
  return samplings;
}

void ExpectEqualToDecode(const JpegOptions& kind) {
  for (const JpegOptions& options : Samplings(kind)) {
    for (const auto& [height, width] : kSizes) {
      const Bytes file = MakeJpeg(height, width, 3, options);
      for (int eighths = 1; eighths <= 8; ++eighths) {
        SCOPED_TRACE(::testing::Message()
                     << width << "x" << height << " at " << eighths << "/8, chroma 1/"
                     << options.luma_columns << " by 1/" << options.luma_rows);
        const DecodeOptions decode{3, eighths};
        const DecodedPlanes planes = DecodePlanes(file, decode);
        const auto expected = ExpectedUpsampling(options, width, eighths);
        ASSERT_EQ(planes.layout.available, expected.has_value());
        if (!expected) continue;
        ASSERT_EQ(planes.layout.upsampling, *expected);
        ASSERT_EQ(planes.layout.plane_count, 3);
        ExpectPixels(planes, Decode(Encoded(file), {}, decode, false), INT_MAX);
      }
    }
  }
}

TEST(JpegPlanes, OfBaselineFilesAreThePixelsOfDecode) { ExpectEqualToDecode({}); }

TEST(JpegPlanes, OfProgressiveFilesAreThePixelsOfDecode) {
  ExpectEqualToDecode({.progressive = true});
}

TEST(JpegPlanes, OfFilesOfSeveralScansAreThePixelsOfDecode) {
  ExpectEqualToDecode({.separate_scans = true});
}

TEST(JpegPlanes, OfFilesWithRestartMarkersAreThePixelsOfDecode) {
  ExpectEqualToDecode({.restart_rows = 1});
}

TEST(JpegPlanes, OfGrayFilesAreOne) {
  for (const auto& [height, width] : kSizes) {
    const Bytes file = MakeJpeg(height, width, 1);
    for (int eighths = 1; eighths <= 8; ++eighths) {
      const DecodedPlanes planes = DecodePlanes(file, {3, eighths});
      ASSERT_TRUE(planes.layout.available);
      EXPECT_EQ(planes.layout.plane_count, 1);
      EXPECT_EQ(planes.layout.upsampling, ChromaUpsampling::kGray);
      ExpectPixels(planes, Decode(Encoded(file), {}, {3, eighths}, false), INT_MAX);
    }
  }
}

TEST(JpegPlanes, LumaAloneIsTheGrayImage) {
  for (const bool progressive : {false, true}) {
    for (const JpegOptions& options : Samplings({.progressive = progressive})) {
      const Bytes file = MakeJpeg(50, 71, 3, options);
      for (int eighths = 1; eighths <= 8; ++eighths) {
        const DecodedPlanes planes = DecodePlanes(file, {1, eighths});
        ASSERT_TRUE(planes.layout.available);
        EXPECT_EQ(planes.layout.plane_count, 1);
        ExpectPixels(planes, Decode(Encoded(file), {}, {1, eighths}, false), INT_MAX);
      }
    }
  }
}

TEST(JpegPlanes, LeaveOutRowsThatAreNotNeeded) {
  for (const JpegOptions& options : Samplings({})) {
    const Bytes file = MakeJpeg(70, 40, 3, options);
    const PixelBuffer expected = Decode(Encoded(file), {}, {}, false);
    size_t bytes = 0;
    for (int end_row = 0; end_row <= 70; ++end_row) {
      const DecodedPlanes planes = DecodePlanes(file, {}, end_row);
      EXPECT_EQ(planes.layout.planes[0].height, 70);
      EXPECT_GE(planes.layout.planes[0].rows, end_row);
      EXPECT_LE(planes.layout.planes[0].rows, end_row + 16);
      EXPECT_GE(planes.layout.size_bytes, bytes);
      bytes = planes.layout.size_bytes;
      ExpectPixels(planes, expected, end_row);
    }
  }
}

TEST(JpegPlanes, StandAlignedOneAfterTheOther) {
  for (const JpegOptions& options : Samplings({})) {
    const JpegPlaneLayout layout = Open(MakeJpeg(33, 47, 3, options), {}).layout();
    size_t end = 0;
    for (const JpegPlane& plane : layout.planes) {
      EXPECT_GE(plane.offset_bytes, end);
      EXPECT_EQ(plane.offset_bytes % kPlaneAlignment, 0U);
      EXPECT_EQ(plane.row_stride_bytes % kPlaneRowAlignment, 0U);
      EXPECT_GE(plane.row_stride_bytes, static_cast<size_t>(plane.width));
      end = plane.offset_bytes + plane.row_stride_bytes * static_cast<size_t>(plane.height);
    }
    EXPECT_GE(layout.size_bytes, end);
  }
}

TEST(JpegPlanes, AreNotThereForOtherColors) {
  const Bytes file = MakeJpeg(20, 30, 4);
  EXPECT_FALSE(Open(file, {}).layout().available);
  JpegPlaneReader reader = Open(file, {.channels = 1});
  EXPECT_FALSE(reader.layout().available);
  EXPECT_TRUE(Throws(ErrorCode::kInternal, "planes", [&] { reader.Decode(nullptr); }));
}

TEST(JpegPlanes, AreNotThereForChromaOfAQuarterButLumaIs) {
  const Bytes file = MakeJpeg(20, 30, 3, {.luma_columns = 4, .luma_rows = 1});
  EXPECT_FALSE(Open(file, {}).layout().available);
  ExpectPixels(DecodePlanes(file, {.channels = 1}),
               Decode(Encoded(file), {}, {.channels = 1}, false), INT_MAX);
}

TEST(JpegPlanes, OfFilesThatChangedSinceTheirHeaderWasReadAreAnError) {
  const Bytes file = MakeJpeg(20, 30);
  const ImageHeader header = ReadHeader(Encoded(file), {});
  const Bytes other = WithSize(file, 2000, 3000);
  EXPECT_TRUE(Throws(ErrorCode::kCorruptImage, "changed",
                     [&] { JpegPlaneReader(Encoded(other), header, {}); }));
}

TEST(JpegPlanes, AreDecodedOnce) {
  const Bytes file = MakeJpeg(20, 30);  // which a reader only refers to
  JpegPlaneReader reader = Open(file, {});
  Bytes block(reader.layout().size_bytes);
  EXPECT_GT(reader.Decode(block.data()).decode_ns, 0);
  EXPECT_TRUE(Throws(ErrorCode::kInternal, "planes", [&] { reader.Decode(block.data()); }));
}

}  // namespace
}  // namespace endcap
