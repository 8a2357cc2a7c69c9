// Which files have planes, and what of a reader is an error. Planes are compared as pixels: by
// fused_kernel_test.cc at every scale, in part by tests/fuzz/jpeg_planes.cc.

#include <gtest/gtest.h>

#include <algorithm>

#include "decode/planes.h"
#include "error_matchers.h"
#include "jpeg_writer.h"

namespace endcap {
namespace {

using testing::Bytes;
using testing::Encoded;
using testing::MakeJpeg;
using testing::Throws;

JpegPlaneReader Open(const Bytes& file, const DecodeOptions& options) {
  return {Encoded(file), ReadHeader(Encoded(file), {}), options};
}

TEST(JpegPlanes, AreNotThereForOtherColors) {
  const Bytes file = MakeJpeg(20, 30, 4);
  EXPECT_FALSE(Open(file, {}).layout().available);
  JpegPlaneReader reader = Open(file, {.channels = 1});
  EXPECT_FALSE(reader.layout().available);
  EXPECT_TRUE(Throws(ErrorCode::kInternal, "planes", [&] { reader.Decode(nullptr); }));
}

// Below full size the inverse DCT itself brings chroma to the size of luma; at 1/8, for few columns
// and for chroma of a quarter there is no filter.
TEST(JpegPlanes, HaveTheUpsamplingOfTheLibrary) {
  const auto upsampling = [](int columns, int rows, int width, int eighths) {
    const Bytes file = MakeJpeg(40, width, 3, {.luma_columns = columns, .luma_rows = rows});
    const JpegPlaneLayout layout = Open(file, {3, eighths}).layout();
    return layout.available ? static_cast<int>(layout.upsampling) : -1;
  };
  EXPECT_EQ(upsampling(1, 1, 50, 1), static_cast<int>(ChromaUpsampling::kNone));
  EXPECT_EQ(upsampling(2, 2, 50, 7), static_cast<int>(ChromaUpsampling::kNone));
  EXPECT_EQ(upsampling(2, 2, 50, 8), static_cast<int>(ChromaUpsampling::kColumnsAndRows));
  EXPECT_EQ(upsampling(2, 1, 50, 3), static_cast<int>(ChromaUpsampling::kColumns));
  EXPECT_EQ(upsampling(1, 2, 3, 2), static_cast<int>(ChromaUpsampling::kRows));
  EXPECT_EQ(upsampling(2, 1, 4, 8), -1);
  EXPECT_EQ(upsampling(2, 1, 50, 1), -1);
  EXPECT_EQ(upsampling(4, 1, 50, 8), -1);
}

TEST(JpegPlanes, LumaAloneIsTheGrayImage) {
  const Bytes file = MakeJpeg(50, 71, 3, {.luma_columns = 4, .luma_rows = 1});
  JpegPlaneReader reader = Open(file, {.channels = 1});
  const JpegPlaneLayout layout = reader.layout();
  ASSERT_TRUE(layout.available);
  Bytes block(layout.size_bytes);
  EXPECT_GT(reader.Decode(block.data()).decode_ns, 0);
  const Bytes gray = Decode(Encoded(file), {}, {.channels = 1}, false).pixels;
  for (size_t y = 0; y < 50; ++y) {
    const uint8_t* row =
        block.data() + layout.planes[0].offset_bytes + layout.planes[0].row_stride_bytes * y;
    EXPECT_TRUE(std::equal(row, row + 71, gray.data() + 71 * y));
  }
  EXPECT_TRUE(Throws(ErrorCode::kInternal, "planes", [&] { reader.Decode(block.data()); }));
}

TEST(JpegPlanes, OfFilesThatChangedSinceTheirHeaderWasReadAreAnError) {
  const Bytes file = MakeJpeg(20, 30);
  const ImageHeader header = ReadHeader(Encoded(file), {});
  const Bytes other = testing::WithSize(file, 2000, 3000);
  EXPECT_TRUE(Throws(ErrorCode::kCorruptImage, "changed",
                     [&] { JpegPlaneReader(Encoded(other), header, {}); }));
}

}  // namespace
}  // namespace endcap
