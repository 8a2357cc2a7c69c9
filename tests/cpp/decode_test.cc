#include "endcap/decode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "decode/bands.h"
#include "error_matchers.h"
#include "jpeg_writer.h"

namespace endcap {
namespace {

using testing::Bytes;
using testing::Encoded;
using testing::FindFrame;
using testing::JpegOptions;
using testing::MakeJpeg;
using testing::Throws;

PixelBuffer DecodeAll(const Bytes& file) { return Decode(Encoded(file), {}, {}, true); }

void Refuse(const Bytes& file, ErrorCode code, const std::string& part = "") {
  EXPECT_TRUE(Throws(code, part, [&] { DecodeAll(file); }));
}

TEST(ReadHeader, TellsSizeColorAndKind) {
  static constexpr DecodeLimits kLimits;
  const auto header = [](const Bytes& file) { return ReadHeader(Encoded(file), kLimits); };
  const ImageHeader plain = header(MakeJpeg(21, 34));
  EXPECT_EQ(plain.width, 34);
  EXPECT_EQ(plain.height, 21);
  EXPECT_EQ(plain.orientation, 1);
  EXPECT_EQ(plain.color, JpegColor::kYcbcr);
  EXPECT_FALSE(plain.progressive);
  EXPECT_EQ(plain.scan_count, 1);
  EXPECT_EQ(header(MakeJpeg(21, 34, 1)).color, JpegColor::kGray);
  EXPECT_EQ(header(MakeJpeg(21, 34, 4)).color, JpegColor::kCmyk);
  const ImageHeader progressive = header(MakeJpeg(21, 34, 3, {.progressive = true}));
  EXPECT_TRUE(progressive.progressive);
  EXPECT_EQ(progressive.scan_count, 10);  // libjpeg's simple progression of YCbCr
}

// Notes which rows came, and wants no more than `end_row`.
class RowCounter : public BandSink {
 public:
  explicit RowCounter(int end_row) : end_row_(end_row) {}
  void Begin(const BandFormat& format) override { format_ = format; }
  void Consume(const RowBand& band) override {
    EXPECT_EQ(band.first_row, rows_);
    EXPECT_GE(band.row_stride_bytes, ptrdiff_t{format_.width} * format_.channels);
    rows_ += band.row_count;
  }
  int EndRow() const override { return end_row_; }
  int rows() const { return rows_; }

 private:
  int end_row_;
  int rows_ = 0;
  BandFormat format_;
};

TEST(DecodeToBands, HandsOverEachRowOnceAndStopsWhenToldTo) {
  const Bytes file = MakeJpeg(100, 40);
  const ImageHeader header = ReadHeader(Encoded(file), {});
  RowCounter all(100);
  EXPECT_GE(DecodeToBands(Encoded(file), header, {}, all).decode_ns, 0);
  EXPECT_EQ(all.rows(), 100);
  RowCounter some(20);
  DecodeToBands(Encoded(file), header, {}, some);
  EXPECT_GE(some.rows(), 20);
  EXPECT_LT(some.rows(), 100);
}

TEST(BadFiles, EveryTruncationIsCorrupt) {
  const std::vector<JpegOptions> kinds = {
      {}, {.progressive = true}, {.separate_scans = true}, {.quality = 100}};
  for (const JpegOptions& options : kinds) {
    const Bytes good = MakeJpeg(24, 40, 3, options);
    for (size_t size = 0; size + 2 < good.size(); ++size) {
      // A copy of the very size, so that reading past it is found by a sanitizer.
      Bytes cut(good.begin(), good.begin() + static_cast<ptrdiff_t>(size));
      Refuse(cut, ErrorCode::kCorruptImage);
      if (options.progressive || options.separate_scans || size + 3 >= good.size()) continue;
      cut.insert(cut.end(), {0xFF, 0xD9});  // an end marker hides no loss
      Refuse(cut, ErrorCode::kCorruptImage);
    }
    if (!options.progressive) continue;  // a file of one scan lacks no pixel without its end marker
    Refuse(Bytes(good.begin(), good.end() - 2), ErrorCode::kCorruptImage, "last scans are missing");
  }
}

TEST(BadFiles, EveryDamagedByteGivesPixelsOrAnError) {
  DecodeLimits limits;
  limits.max_pixels = 1 << 20;
  for (const bool progressive : {false, true}) {
    const Bytes good = MakeJpeg(24, 40, 3, {.progressive = progressive, .orientation = 6});
    int decoded = 0;
    for (size_t i = 0; i < good.size(); ++i) {
      for (const int flip : {0x01, 0x80, 0xFF}) {
        Bytes bad = good;
        bad[i] = static_cast<uint8_t>(bad[i] ^ flip);
        try {
          const PixelBuffer image = Decode(Encoded(bad), limits, {}, true);
          EXPECT_FALSE(image.pixels.empty());
          ++decoded;
        } catch (const Error& error) {
          EXPECT_NE(error.code(), ErrorCode::kInternal) << error.what();
        }
      }
    }
    EXPECT_GT(decoded, 0);
  }
}

TEST(BadFiles, OfAnotherKindAreUnsupported) {
  const Bytes good = MakeJpeg(40, 60);
  const size_t frame = FindFrame(good);
  Bytes twelve_bits = good;
  twelve_bits[frame + 4] = 12;
  Refuse(twelve_bits, ErrorCode::kUnsupported, "12");
  for (const int marker : {0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF}) {
    Bytes other = good;
    other[frame + 1] = static_cast<uint8_t>(marker);
    Refuse(other, ErrorCode::kUnsupported);
  }
}

TEST(Exif, DamageIsHarmless) {
  const Bytes good = MakeJpeg(24, 40, 3, {.orientation = 6});
  const size_t payload = 2 + 18 + 4;  // after SOI, JFIF's segment, and this one's marker and length
  ASSERT_EQ(good[payload], 'E');
  for (size_t i = payload; i < payload + 32; ++i) {
    for (int value = 0; value < 256; ++value) {
      Bytes bad = good;
      bad[i] = static_cast<uint8_t>(value);
      const int orientation = ReadHeader(Encoded(bad), {}).orientation;
      EXPECT_GE(orientation, 1);
      EXPECT_LE(orientation, 8);
    }
  }
}

}  // namespace
}  // namespace endcap
