// JPEGs whose image data ends early, with and without bytes in the place of what is missing: such
// padding decodes like image data.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "decode/jpeg_markers.h"
#include "decode/planes.h"
#include "endcap/decode.h"
#include "endcap/implementation.h"
#include "error_matchers.h"
#include "jpeg_writer.h"

namespace endcap {
namespace {

using testing::Bytes;
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
Bytes Cut(const Bytes& file, size_t count, const Bytes& padding = {}) {
  Bytes cut(file.begin(), file.end() - static_cast<ptrdiff_t>(count));
  cut.insert(cut.end(), padding.begin(), padding.end());
  return cut;
}

Bytes CutInHalf(const Bytes& file, const Bytes& padding = {}) {
  return Cut(file, file.size() * 4 / 10, padding);
}

PixelBuffer DecodeFile(const Bytes& file, Truncated truncated = Truncated::kReject,
                       int eighths = 8) {
  return Decode(Encoded(file), {}, {3, eighths, truncated}, true);
}

::testing::AssertionResult IsCorrupt(const Bytes& file, const std::string& part,
                                     Truncated truncated = Truncated::kReject) {
  return Throws(ErrorCode::kCorruptImage, part, [&] { DecodeFile(file, truncated); });
}

// Ends what a test forced.
class TruncatedFiles : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { ForceImplementation(GetParam()); }
  void TearDown() override { ForceImplementation("auto"); }
};

TEST_P(TruncatedFiles, PaddedWithZerosAreCorrupt) {
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

TEST_P(TruncatedFiles, EveryCutThatZerosFollowIsCorrupt) {
  const Bytes good = MakeJpeg(24, 40);
  const size_t scan_offset = ReadMarkers(good.data(), good.size()).scan_offset;
  const size_t image_data = good.size() - scan_offset - 14;  // with the end marker
  for (size_t missing = 3; missing <= image_data; ++missing) {
    const Bytes padded = Cut(good, missing, Bytes(3000, 0));
    EXPECT_TRUE(IsCorrupt(padded, "")) << missing << " bytes are missing";
  }
}

TEST_P(TruncatedFiles, PaddedWithOtherBytesAreCorrupt) {
  for (const auto& [name, file] : OneScanFiles()) {
    for (const int byte : {0x20, 0xAA, 0xFF}) {
      EXPECT_TRUE(IsCorrupt(CutInHalf(file, Bytes(20000, static_cast<uint8_t>(byte))), "cut short"))
          << name << ", byte " << byte;
    }
  }
}

TEST_P(TruncatedFiles, OfSeveralScansAreCorruptWhateverFollows) {
  for (const JpegOptions& options : {JpegOptions{.progressive = true}, {.separate_scans = true}}) {
    const Bytes good = MakeJpeg(kHeight, kWidth, 3, options);
    for (const int byte : {0, 0x20, 0xFF}) {
      EXPECT_TRUE(IsCorrupt(Cut(good, 60, Bytes(20000, static_cast<uint8_t>(byte))), "cut short"));
    }
  }
}

TEST_P(TruncatedFiles, CompleteFilesDecodeWhateverFollows) {
  for (const auto& [name, file] : OneScanFiles()) {
    SCOPED_TRACE(name);
    const Bytes pixels = DecodeFile(file).pixels;
    EXPECT_EQ(DecodeFile(Cut(file, 0, Bytes(500, 0))).pixels, pixels);
    EXPECT_EQ(DecodeFile(Cut(file, 0, Bytes(500, 0x20))).pixels, pixels);
    // Without the end marker, or half of it; nothing else is missing.
    EXPECT_EQ(DecodeFile(Cut(file, 2)).pixels, pixels);
    EXPECT_EQ(DecodeFile(Cut(file, 1)).pixels, pixels);
  }
}

TEST_P(TruncatedFiles, BytesInThePlaceOfTheEndMarkerAreUnread) {
  for (const auto& [name, file] : OneScanFiles()) {
    SCOPED_TRACE(name);
    EXPECT_TRUE(IsCorrupt(Cut(file, 2, {0}), "more bytes than its image needs"));
    EXPECT_TRUE(IsCorrupt(Cut(file, 2, {0x20, 0x20}), "more bytes than its image needs"));
    EXPECT_TRUE(IsCorrupt(Cut(file, 2, {0, 0}), "ends in zeros"));
    EXPECT_TRUE(IsCorrupt(Cut(file, 2, {0xFF, 0xE0, 0, 2}), "more bytes than its image needs"));
  }
}

TEST_P(TruncatedFiles, AWindowThatEndsAboveTheDamageDecodes) {
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

TEST_P(TruncatedFiles, CheckDecodesFailsWhereDecodingDoes) {
  std::vector<Bytes> files;
  for (const auto& [name, file] : OneScanFiles()) {
    files.insert(files.end(), {file, CutInHalf(file), CutInHalf(file, Bytes(20000, 0))});
    Bytes damaged = file;
    damaged[damaged.size() - 40] = 0xFF;
    damaged[damaged.size() - 39] = 0xD3;
    files.push_back(damaged);
  }
  for (const Bytes& file : files) {
    const ImageHeader header = ReadHeader(Encoded(file), {});
    const auto outcome = [](const auto& call) -> std::string {
      try {
        call();
      } catch (const Error& error) {
        return error.what();
      }
      return "";
    };
    for (const PixelRect& window : {PixelRect{0, 0, kHeight, 16}, {0, 0, 8, kWidth}}) {
      for (const Truncated truncated : {Truncated::kReject, Truncated::kAccept}) {
        const DecodeOptions options{.truncated = truncated};
        const int orientation = header.orientation;
        PixelRect inside = window;
        if (orientation == 1) std::swap(inside.width, inside.height);
        DecodeReport report;
        EXPECT_EQ(outcome([&] { CheckDecodes(Encoded(file), header, options); }), outcome([&] {
                    DecodeOriented(Encoded(file), header, options, orientation, report);
                  }));
        EXPECT_EQ(
            outcome([&] { CheckDecodes(Encoded(file), header, options, orientation, inside); }),
            outcome([&] {
              DecodeWindow(Encoded(file), header, options, orientation, inside, report);
            }));
      }
    }
  }
}

TEST_P(TruncatedFiles, AcceptedOnesKeepTheRowsThatAreThere) {
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

TEST_P(TruncatedFiles, AcceptedOnesHaveCoarsePixelsWhereScansAreMissing) {
  const Bytes file = MakeJpeg(kHeight, kWidth, 3, {.progressive = true});
  const Bytes cut = CutInHalf(file);
  EXPECT_TRUE(IsCorrupt(cut, "cut short"));
  const PixelBuffer good = DecodeFile(file);
  const PixelBuffer found = DecodeFile(cut, Truncated::kAccept);
  int64_t difference = 0;
  for (size_t i = 0; i < good.pixels.size(); ++i) {
    difference += std::abs(good.pixels[i] - found.pixels[i]);
  }
  EXPECT_GT(difference, 0);
  EXPECT_LT(difference, static_cast<int64_t>(10 * good.pixels.size()));
}

TEST_P(TruncatedFiles, RestartMarkersThatAreMissingAtTheEndAreAccepted) {
  const Bytes file = MakeJpeg(kHeight, kWidth, 3, {.restart_rows = 1});
  const Bytes cut = CutInHalf(file);
  EXPECT_TRUE(IsCorrupt(cut, ""));
  EXPECT_TRUE(IsCorrupt(CutInHalf(file, Bytes(20000, 0)), ""));
  EXPECT_EQ(DecodeFile(cut, Truncated::kAccept).pixels.size(), DecodeFile(file).pixels.size());
}

// What is missing is made up; what is damaged is not accepted.
TEST_P(TruncatedFiles, DamageIsCorruptAlsoWhereTheyAreAccepted) {
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

INSTANTIATE_TEST_SUITE_P(Implementations, TruncatedFiles, ::testing::Values("scalar", "simd"));

TEST(AcceptedTruncatedFiles, AreTheSameOnEachImplementation) {
  std::vector<File> files = OneScanFiles();
  files.push_back({"progressive", MakeJpeg(kHeight, kWidth, 3, {.progressive = true})});
  files.push_back({"restarts", MakeJpeg(kHeight, kWidth, 3, {.restart_rows = 1})});
  for (const auto& [name, file] : files) {
    const size_t step = name == "progressive" ? 1 : 97;  // some cuts are in segments between scans
    for (size_t missing = 3; missing < file.size() / 2; missing += step) {
      const Bytes cut = Cut(file, missing);
      ForceImplementation("scalar");
      const Bytes expected = DecodeFile(cut, Truncated::kAccept).pixels;
      ForceImplementation("simd");
      EXPECT_EQ(DecodeFile(cut, Truncated::kAccept).pixels, expected) << name << " " << missing;
    }
  }
  ForceImplementation("auto");
}

TEST(TruncatedPlanes, AreCorruptUnlessAccepted) {
  const Bytes good = MakeJpeg(kHeight, kWidth);
  const Bytes padded = CutInHalf(good, Bytes(20000, 0));
  const ImageHeader header = ReadHeader(Encoded(padded), {});
  const auto decode = [&](const Bytes& file, Truncated truncated, int end_row) {
    JpegPlaneReader reader(Encoded(file), header, {.truncated = truncated}, end_row);
    Bytes block(reader.layout().size_bytes);
    reader.Decode(block.data());
    return block;
  };
  EXPECT_TRUE(Throws(ErrorCode::kCorruptImage, "ends in zeros",
                     [&] { decode(padded, Truncated::kReject, kHeight); }));
  EXPECT_EQ(decode(padded, Truncated::kAccept, kHeight).size(),
            decode(good, Truncated::kReject, kHeight).size());
  EXPECT_EQ(decode(padded, Truncated::kReject, 16), decode(good, Truncated::kReject, 16));
}

}  // namespace
}  // namespace endcap
