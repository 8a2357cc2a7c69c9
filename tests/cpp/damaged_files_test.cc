// JPEGs with damage that libjpeg-turbo only warns about, which have its pixels where that is
// accepted; and JPEGs whose image data ends early, with and without bytes in the place of what is
// missing: such padding decodes like image data.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <span>
#include <string>
#include <utility>
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
using testing::JpegOptions;
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
class FilesOn : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { ForceImplementation(GetParam()); }
  void TearDown() override { ForceImplementation("auto"); }
};

TEST_P(FilesOn, DamagedAreCorruptUnlessAccepted) {
  for (const auto& [name, file] : DamagedFiles()) {
    SCOPED_TRACE(name);
    EXPECT_TRUE(Throws(ErrorCode::kCorruptImage, "", [&] { Decode(Encoded(file), {}, {}, true); }));
  }
}

TEST_P(FilesOn, DamagedHavePixelsOfLibjpegTurboAtEveryScale) {
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

TEST_P(FilesOn, DamagedAreToldFromGoodOnes) {
  const DecodeOptions options{.damaged = Damaged::kAccept};
  for (const auto& recipe : {JpegOptions{}, {.progressive = true}, {.restart_rows = 1}}) {
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

INSTANTIATE_TEST_SUITE_P(Implementations, FilesOn, ::testing::Values("scalar", "simd"));

// Files of one scan: planes that endcap converts itself, and rows of libjpeg's.
std::vector<File> OneScanFiles() {
  return {{"4:2:0", MakeJpeg(kHeight, kWidth)},
          {"4:4:4", MakeJpeg(kHeight, kWidth, 3, {.luma_columns = 1, .luma_rows = 1})},
          {"4:1:1", MakeJpeg(kHeight, kWidth, 3, {.luma_columns = 4, .luma_rows = 1})},
          {"gray", MakeJpeg(kHeight, kWidth, 1)},
          {"CMYK", MakeJpeg(kHeight, kWidth, 4)},
          {"rotated", MakeJpeg(kHeight, kWidth, 3, {.orientation = 6})}};
}

// Without the last `count` bytes, and `padding` behind.
Bytes WithoutLast(const Bytes& file, size_t count, const Bytes& padding = {}) {
  return Cut(file, file.size() - count, padding);
}

Bytes CutInHalf(const Bytes& file, const Bytes& padding = {}) {
  return WithoutLast(file, file.size() * 4 / 10, padding);
}

PixelBuffer DecodeFile(const Bytes& file, Truncated truncated = Truncated::kReject,
                       int eighths = 8) {
  return Decode(Encoded(file), {}, {3, eighths, truncated}, true);
}

::testing::AssertionResult IsCorrupt(const Bytes& file, const std::string& part,
                                     Truncated truncated = Truncated::kReject) {
  return Throws(ErrorCode::kCorruptImage, part, [&] { DecodeFile(file, truncated); });
}

TEST_P(FilesOn, TruncatedPaddedWithZerosAreCorrupt) {
  for (const auto& [name, file] : OneScanFiles()) {
    SCOPED_TRACE(name);
    const Bytes padded = CutInHalf(file, Bytes(20000, 0));
    EXPECT_TRUE(IsCorrupt(padded, "ends in zeros"));
    for (int eighths = 1; eighths < 8; ++eighths) {
      EXPECT_TRUE(Throws(ErrorCode::kCorruptImage, "ends in zeros",
                         [&] { DecodeFile(padded, Truncated::kReject, eighths); }));
    }
    for (const int channels : {1, 3, 4}) {
      EXPECT_TRUE(Throws(ErrorCode::kCorruptImage, "ends in zeros",
                         [&] { Decode(Encoded(padded), {}, {.channels = channels}, true); }));
    }
  }
}

TEST_P(FilesOn, TruncatedPaddedWithOtherBytesAreCorrupt) {
  for (const auto& [name, file] : OneScanFiles()) {
    for (const int byte : {0x20, 0xAA, 0xFF}) {
      EXPECT_TRUE(IsCorrupt(CutInHalf(file, Bytes(20000, static_cast<uint8_t>(byte))), "cut short"))
          << name << ", byte " << byte;
    }
  }
}

TEST_P(FilesOn, TruncatedCompleteFilesDecodeWhateverFollows) {
  for (const auto& [name, file] : OneScanFiles()) {
    SCOPED_TRACE(name);
    const Bytes pixels = DecodeFile(file).pixels;
    EXPECT_EQ(DecodeFile(WithoutLast(file, 0, Bytes(500, 0))).pixels, pixels);
    EXPECT_EQ(DecodeFile(WithoutLast(file, 0, Bytes(500, 0x20))).pixels, pixels);
    // Without the end marker, or half of it; nothing else is missing.
    EXPECT_EQ(DecodeFile(WithoutLast(file, 2)).pixels, pixels);
    EXPECT_EQ(DecodeFile(WithoutLast(file, 1)).pixels, pixels);
  }
}

TEST_P(FilesOn, TruncatedBytesInThePlaceOfTheEndMarkerAreUnread) {
  for (const auto& [name, file] : OneScanFiles()) {
    SCOPED_TRACE(name);
    EXPECT_TRUE(IsCorrupt(WithoutLast(file, 2, {0}), "more bytes than its image needs"));
    EXPECT_TRUE(IsCorrupt(WithoutLast(file, 2, {0x20, 0x20}), "more bytes than its image needs"));
    EXPECT_TRUE(IsCorrupt(WithoutLast(file, 2, {0, 0}), "ends in zeros"));
    EXPECT_TRUE(
        IsCorrupt(WithoutLast(file, 2, {0xFF, 0xE0, 0, 2}), "more bytes than its image needs"));
  }
}

TEST_P(FilesOn, TruncatedAWindowThatEndsAboveTheDamageDecodes) {
  const Bytes good = MakeJpeg(kHeight, kWidth);
  const Bytes padded = CutInHalf(good, Bytes(20000, 0));
  const ImageHeader header = ReadHeader(Encoded(padded), {});
  const auto decode = [&](const Bytes& file, const PixelRect& window) {
    DecodeReport report;
    return DecodeWindow(Encoded(file), header, {}, 1, window, report).pixels;
  };
  const PixelRect top{3, 2, 40, 20};
  EXPECT_EQ(decode(padded, top), decode(good, top));
  const PixelRect bottom{3, kHeight - 20, 40, 20};
  EXPECT_TRUE(Throws(ErrorCode::kCorruptImage, "ends in zeros", [&] { decode(padded, bottom); }));
}

TEST_P(FilesOn, TruncatedAcceptedOnesKeepTheRowsThatAreThere) {
  for (const auto& [name, file] : OneScanFiles()) {
    if (name == "rotated") continue;
    SCOPED_TRACE(name);
    const PixelBuffer good = DecodeFile(file);
    const auto first_rows = good.pixels.begin() + ptrdiff_t{16} * kWidth * 3;
    for (const Bytes& cut : {CutInHalf(file), CutInHalf(file, Bytes(20000, 0)),
                             CutInHalf(file, {0xFF, 0xD9}), CutInHalf(file, Bytes(20000, 0xFF))}) {
      const PixelBuffer found = DecodeFile(cut, Truncated::kAccept);
      ASSERT_EQ(found.pixels.size(), good.pixels.size());
      EXPECT_TRUE(std::equal(good.pixels.begin(), first_rows, found.pixels.begin()));
      EXPECT_NE(found.pixels, good.pixels);
    }
    EXPECT_EQ(DecodeFile(file, Truncated::kAccept).pixels, good.pixels);
  }
}

// What is missing is made up; what is damaged is not accepted.
TEST_P(FilesOn, TruncatedDamageIsCorruptAlsoWhereTheyAreAccepted) {
  const Bytes file = MakeJpeg(kHeight, kWidth, 3, {.restart_rows = 1});
  Bytes damaged = file;
  const auto restart = std::ranges::search(damaged, Bytes{0xFF, 0xD2});
  ASSERT_FALSE(restart.empty());
  restart.front() = 0x12;
  EXPECT_TRUE(IsCorrupt(damaged, "damaged", Truncated::kAccept));
  Bytes early = file;  // another marker in the image data
  early[early.size() - 30] = 0xFF;
  early[early.size() - 29] = 0xDA;
  EXPECT_TRUE(IsCorrupt(early, "damaged", Truncated::kAccept));
}

TEST(AcceptedTruncatedFiles, AreTheSameOnEachImplementation) {
  std::vector<File> files = OneScanFiles();
  files.push_back({"progressive", MakeJpeg(kHeight, kWidth, 3, {.progressive = true})});
  files.push_back({"restarts", MakeJpeg(kHeight, kWidth, 3, {.restart_rows = 1})});
  for (const auto& [name, file] : files) {
    const size_t step = name == "progressive" ? 1 : 97;  // some cuts are in segments between scans
    for (size_t missing = 3; missing < file.size() / 2; missing += step) {
      const Bytes cut = WithoutLast(file, missing);
      ForceImplementation("scalar");
      const Bytes expected = DecodeFile(cut, Truncated::kAccept).pixels;
      ForceImplementation("simd");
      EXPECT_EQ(DecodeFile(cut, Truncated::kAccept).pixels, expected) << name << " " << missing;
    }
  }
  ForceImplementation("auto");
}

}  // namespace
}  // namespace endcap
