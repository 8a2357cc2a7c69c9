// JPEGs with damage that libjpeg-turbo only warns about: its own pixels where that is accepted.

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "decode/jpeg_markers.h"
#include "decode/planes.h"
#include "endcap/decode.h"
#include "endcap/implementation.h"
#include "error_matchers.h"
#include "jpeg_writer.h"
#include "plain_jpeg.h"

namespace endcap {
namespace {

using testing::Bytes;
using testing::DecodePlainly;
using testing::Encoded;
using testing::MakeJpeg;
using testing::Throws;

constexpr int kHeight = 96;
constexpr int kWidth = 80;

struct File {
  std::string name;
  Bytes bytes;
};

size_t DataOffset(const Bytes& file) { return ReadMarkers(file.data(), file.size()).data_offset; }

// The file with other bytes at a position of its image data, in thousandths.
Bytes WithBytes(Bytes file, int thousandths, const Bytes& bytes) {
  const size_t begin = DataOffset(file);
  const size_t at = begin + (file.size() - begin) * static_cast<size_t>(thousandths) / 1000;
  std::ranges::copy(bytes, file.begin() + static_cast<ptrdiff_t>(at));
  return file;
}

Bytes WithMarker(Bytes file, uint8_t from, const Bytes& to) {
  const auto marker = std::ranges::search(file, Bytes{0xFF, from});
  EXPECT_FALSE(marker.empty());
  std::ranges::copy(to, marker.begin());
  return file;
}

Bytes Cut(const Bytes& file, size_t size, const Bytes& padding = {}) {
  Bytes cut(file.begin(), file.begin() + static_cast<ptrdiff_t>(size));
  cut.insert(cut.end(), padding.begin(), padding.end());
  return cut;
}

// More than any Huffman code has.
const Bytes kOnes = {0xFF, 0, 0xFF, 0, 0xFF, 0, 0xFF, 0};

// Of colors that libjpeg-turbo makes RGB of.
std::vector<File> DamagedFiles() {
  const Bytes plain = MakeJpeg(kHeight, kWidth);
  const Bytes gray = MakeJpeg(kHeight, kWidth, 1);
  const Bytes restarts = MakeJpeg(kHeight, kWidth, 3, {.restart_rows = 1});
  const Bytes full = MakeJpeg(kHeight, kWidth, 3, {.luma_columns = 1, .luma_rows = 1});
  const Bytes wide = MakeJpeg(kHeight, kWidth, 3, {.luma_columns = 4, .luma_rows = 1});
  const Bytes progressive = MakeJpeg(kHeight, kWidth, 3, {.progressive = true});
  const Bytes scans = MakeJpeg(kHeight, kWidth, 3, {.separate_scans = true});
  const std::span behind_first = std::span(scans).subspan(DataOffset(scans));
  const Bytes marker = {0xFF, 0xDA};
  const auto second = std::ranges::search(behind_first, marker).begin() - behind_first.begin();
  const size_t first_scan_bytes = DataOffset(scans) + static_cast<size_t>(second);
  return {
      {"a restart marker is lost", WithMarker(restarts, 0xD2, {0x12, 0x34})},
      {"a restart marker is misnumbered", WithMarker(restarts, 0xD2, {0xFF, 0xD5})},
      {"wrong bytes between restart markers", WithBytes(restarts, 500, kOnes)},
      {"another marker amid the data", WithBytes(plain, 500, {0xFF, 0xDA})},
      {"the end marker amid the data", WithBytes(plain, 400, {0xFF, 0xD9})},
      {"ones amid the data", WithBytes(plain, 500, kOnes)},
      {"ones amid the data, 4:4:4", WithBytes(full, 300, kOnes)},
      {"a marker amid the data, 4:1:1", WithBytes(wide, 500, {0xFF, 0xD3})},
      {"a marker amid the data, gray", WithBytes(gray, 300, {0xFF, 0xC0})},
      {"cut short", Cut(plain, plain.size() / 2)},
      {"cut short, zeros behind", Cut(plain, plain.size() / 2, Bytes(20000, 0))},
      {"cut down to less than an image needs", Cut(plain, DataOffset(plain) + 3)},
      {"progressive, a marker amid the data", WithBytes(progressive, 300, {0xFF, 0xD7})},
      {"progressive, ones amid the data", WithBytes(progressive, 700, kOnes)},
      {"progressive, cut short", Cut(progressive, progressive.size() * 6 / 10)},
      {"progressive, cut down to its first scan", Cut(progressive, DataOffset(progressive) + 50)},
      {"of several scans, ones amid the data", WithBytes(scans, 200, kOnes)},
      {"of several scans, cut short", Cut(scans, scans.size() - 20)},
      {"of several scans, without those of chroma", Cut(scans, first_scan_bytes, {0xFF, 0xD9})},
  };
}

ImageHeader AcceptingHeader(const Bytes& file) {
  return ReadHeader(Encoded(file), {}, Damaged::kAccept);
}

// Ends what a test forced.
class DamagedFilesOn : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { ForceImplementation(GetParam()); }
  void TearDown() override { ForceImplementation("auto"); }
};

TEST_P(DamagedFilesOn, AreCorruptUnlessAccepted) {
  for (const auto& [name, file] : DamagedFiles()) {
    SCOPED_TRACE(name);
    EXPECT_TRUE(Throws(ErrorCode::kCorruptImage, "", [&] { Decode(Encoded(file), {}, {}, true); }));
  }
}

TEST_P(DamagedFilesOn, HavePixelsOfLibjpegTurboAtEveryScale) {
  for (const auto& [name, file] : DamagedFiles()) {
    for (int eighths = 1; eighths <= 8; ++eighths) {
      for (const int channels : {1, 3}) {
        SCOPED_TRACE(name + ", " + std::to_string(eighths) + " eighths, " +
                     std::to_string(channels) + " channels");
        const auto expected = DecodePlainly(file, channels, eighths);
        ASSERT_FALSE(expected.pixels.empty());
        const DecodeOptions options{channels, eighths, Truncated::kReject, Damaged::kAccept};
        DecodeReport report;
        const PixelBuffer image =
            DecodeOriented(Encoded(file), AcceptingHeader(file), options, 1, report);
        EXPECT_EQ(image.format.width, expected.width);
        EXPECT_TRUE(image.pixels == expected.pixels);
      }
    }
  }
}

TEST_P(DamagedFilesOn, HaveTheSamePixelsInWindows) {
  const DecodeOptions options{.damaged = Damaged::kAccept};
  for (const auto& [name, file] : DamagedFiles()) {
    SCOPED_TRACE(name);
    const auto whole = DecodePlainly(file, 3, 8);
    for (const int y : {0, 37, kHeight - 9}) {
      const PixelRect window{5, y, 40, 9};
      DecodeReport report;
      const PixelBuffer part =
          DecodeWindow(Encoded(file), AcceptingHeader(file), options, 1, window, report);
      for (int row = 0; row < window.height; ++row) {
        const auto expected = whole.pixels.begin() + ptrdiff_t{3} * (kWidth * (y + row) + window.x);
        const auto found = part.pixels.begin() + ptrdiff_t{3} * window.width * row;
        EXPECT_TRUE(std::equal(found, found + ptrdiff_t{3} * window.width, expected)) << y;
      }
    }
  }
}

TEST_P(DamagedFilesOn, AreToldFromGoodOnes) {
  const DecodeOptions options{.damaged = Damaged::kAccept};
  for (const auto& recipe : {testing::JpegOptions{}, {.progressive = true}, {.restart_rows = 1}}) {
    Bytes file = MakeJpeg(kHeight, kWidth, 3, recipe);
    const Bytes expected = Decode(Encoded(file), {}, {}, true).pixels;
    for (const size_t missing : {size_t{0}, size_t{2}}) {
      if (recipe.progressive && missing > 0) continue;
      file.resize(file.size() - missing);
      DecodeReport report;
      EXPECT_EQ(DecodeOriented(Encoded(file), AcceptingHeader(file), options, 1, report).pixels,
                expected);
      EXPECT_EQ(report.damage, "");
    }
  }
  for (const auto& [name, file] : DamagedFiles()) {
    if (name.find("ones") != std::string::npos) continue;  // which the library may take for zeros
    DecodeReport report;
    DecodeOriented(Encoded(file), AcceptingHeader(file), options, 1, report);
    EXPECT_NE(report.damage, "") << name;
  }
}

TEST_P(DamagedFilesOn, StayCorruptWhereLibjpegTurboGivesUp) {
  const Bytes good = MakeJpeg(kHeight, kWidth);
  const DecodeOptions options{.damaged = Damaged::kAccept};
  for (const Bytes& file : {Cut(good, 100), WithMarker(good, 0xC4, {0xFF, 0x02})}) {
    EXPECT_TRUE(DecodePlainly(file, 3, 8).pixels.empty());
    EXPECT_TRUE(
        Throws(ErrorCode::kCorruptImage, "", [&] { Decode(Encoded(file), {}, options, true); }));
  }
}

TEST_P(DamagedFilesOn, AreDecodedWhereverTheyAreCutIfTruncatedOnesAreAcceptedToo) {
  const Bytes good = MakeJpeg(kHeight, kWidth, 3, {.progressive = true});
  DecodeOptions options{.truncated = Truncated::kAccept};
  for (size_t size = DataOffset(good) + 200; size < good.size(); ++size) {
    const Bytes file = Cut(good, size);
    options.damaged = Damaged::kReject;
    const Bytes expected = Decode(Encoded(file), {}, options, true).pixels;
    options.damaged = Damaged::kAccept;
    EXPECT_EQ(Decode(Encoded(file), {}, options, true).pixels, expected) << size;
  }
}

INSTANTIATE_TEST_SUITE_P(Implementations, DamagedFilesOn, ::testing::Values("scalar", "simd"));

// Luma in full size is the gray image.
TEST(DamagedPlanes, HaveTheSamplesOfLibjpegTurbo) {
  for (const auto& [name, file] : DamagedFiles()) {
    SCOPED_TRACE(name);
    JpegPlaneReader reader(Encoded(file), AcceptingHeader(file), {.damaged = Damaged::kAccept});
    if (!reader.layout().available) continue;
    const JpegPlane luma = reader.layout().planes[0];
    Bytes block(reader.layout().size_bytes);
    reader.Decode(block.data());
    const Bytes expected = DecodePlainly(file, 1, 8).pixels;
    for (int row = 0; row < luma.height; ++row) {
      const uint8_t* found =
          block.data() + luma.offset_bytes + luma.row_stride_bytes * static_cast<size_t>(row);
      EXPECT_TRUE(std::equal(found, found + kWidth, expected.begin() + ptrdiff_t{kWidth} * row));
    }
  }
}

}  // namespace
}  // namespace endcap
