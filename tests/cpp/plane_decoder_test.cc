#include "decode/plane_decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

#include "decode/jpeg_markers.h"
#include "plane_harness.h"

namespace endcap {
namespace {

using testing::By;
using testing::Bytes;
using testing::Decode;
using testing::ExpectEqual;
using testing::FindFrame;
using testing::JpegOptions;
using testing::Kind;
using testing::Kinds;
using testing::MakeJpeg;
using testing::MakePixels;
using testing::Outcome;
using testing::WriteJpeg;

using Decoder = PlaneDecoder::Decoder;

Bytes Noise(int height, int width, int channels) {
  std::mt19937 random(9);
  Bytes pixels(static_cast<size_t>(height * width * channels));
  for (uint8_t& value : pixels) value = static_cast<uint8_t>(random());
  return pixels;
}

TEST(PlaneDecoder, GivesTheLibrarysPixels) {
  for (const Kind& kind : Kinds()) {
    for (const int channels : {1, 3, 4}) {
      for (const int quality : {5, 75, 100}) {
        for (const bool optimized : {false, true}) {
          for (const int restart_rows : {0, 1, 3}) {
            JpegOptions options = kind.options;
            options.quality = quality;
            options.optimized = optimized;
            options.restart_rows = restart_rows;
            const Bytes pixels =
                quality == 100 ? Noise(93, 117, channels) : MakePixels(93, 117, channels);
            const Bytes file = WriteJpeg(pixels, 93, 117, channels, options);
            const std::string what = std::string(kind.name) + ", " + std::to_string(channels) +
                                     " channels, quality " + std::to_string(quality) +
                                     ", restart " + std::to_string(restart_rows);
            const Outcome outcome = Decode(file, By::kEndcap);
            ASSERT_EQ(outcome.error, "") << what;
            ASSERT_NE(outcome.decoder, Decoder::kLibjpegTurbo) << what;
            ExpectEqual(file, what);
          }
        }
      }
    }
  }
}

// Where chroma has a quarter of the columns and rows, its blocks grow twice, as from 3 samples a
// side to
// 12. No scan can hold all blocks of such an MCU.
TEST(PlaneDecoder, GivesTheLibrarysPixelsOfBlocksThatGrowTwice) {
  const Bytes file =
      MakeJpeg(61, 83, 3, {.separate_scans = true, .luma_columns = 4, .luma_rows = 4});
  for (int eighths = 1; eighths <= 8; ++eighths) {
    ASSERT_EQ(Decode(file, By::kEndcap, eighths).error, "") << eighths;
    ExpectEqual(file, std::to_string(eighths) + "/8", eighths);
  }
}

// Large steps bring what was coded in small ones out of an image's range.
TEST(PlaneDecoder, GivesTheLibrarysPixelsOfCoefficientsOutOfRange) {
  for (const Kind& kind : Kinds()) {
    JpegOptions options = kind.options;
    options.quality = 100;
    Bytes file = WriteJpeg(Noise(61, 83, 3), 61, 83, 3, options);
    for (size_t at = 2; at + 4 + 65 <= file.size() && file[at] == 0xFF && file[at + 1] != kSos;
         at += 2 + size_t{file[at + 2]} * 256 + file[at + 3]) {
      if (file[at + 1] == kDqt) std::fill_n(file.begin() + static_cast<ptrdiff_t>(at) + 5, 64, 255);
    }
    for (int eighths = 1; eighths <= 8; ++eighths) {
      const std::string what = std::string(kind.name) + ", " + std::to_string(eighths) + "/8";
      ASSERT_EQ(Decode(file, By::kEndcap, eighths).error, "") << what;
      ExpectEqual(file, what, eighths);
    }
  }
}

// The last scan brings a flat picture, which leaves the AC coefficients of the first scans as they
// are. Nobody asks for the tables that come after the last scan, and the library does not look at
// them.
TEST(PlaneDecoder, LeavesComponentsOfTwoScansToTheLibrary) {
  const Bytes together = WriteJpeg(Bytes(size_t{40} * 50 * 3, 90), 40, 50, 3);
  JpegOptions options;
  options.separate_scans = true;
  Bytes file = MakeJpeg(40, 50, 3, options);
  file.resize(file.size() - 2);
  const size_t scan = ReadMarkers(together.data(), together.size()).scan_offset;
  file.insert(file.end(), together.begin() + static_cast<ptrdiff_t>(scan), together.end());
  EXPECT_EQ(Decode(file, By::kEndcap).decoder, Decoder::kLibjpegTurbo);
  EXPECT_EQ(Decode(file, By::kEndcap).error, "");
  ExpectEqual(file, "four scans");

  file.resize(file.size() - 2);
  Bytes no_prefix_code = {0xFF, kDht, 0, 2 + 1 + 16 + 200, 0x10, 0, 200};
  no_prefix_code.resize(2 + 2 + 1 + 16 + 200);
  file.insert(file.end(), no_prefix_code.begin(), no_prefix_code.end());
  file.insert(file.end(), {0xFF, kEoi});
  ASSERT_EQ(Decode(file, By::kEndcap).error, "");
  ExpectEqual(file, "four scans and a table");
}

// The library refuses some orders of components, and decodes others.
TEST(PlaneDecoder, LeavesScansInAnotherOrderToTheLibrary) {
  const Bytes good = MakeJpeg(40, 50, 4);
  const size_t ids = ReadMarkers(good.data(), good.size()).scan_offset + 5;
  std::array<size_t, 4> order = {0, 1, 2, 3};
  do {
    Bytes file = good;
    for (size_t i = 0; i < order.size(); ++i) file[ids + 2 * i] = good[ids + 2 * order[i]];
    ExpectEqual(file, "order " + std::to_string(order[0]) + std::to_string(order[1]) +
                          std::to_string(order[2]));
  } while (std::next_permutation(order.begin(), order.end()));
}

// Memory that somebody writes to between header and decoding.
TEST(PlaneDecoder, RefusesAFileThatHasChanged) {
  const Bytes good = MakeJpeg(40, 50, 3);
  const ImageHeader header = ReadHeader(testing::Encoded(good), {});
  const size_t count = FindFrame(good) + 9;
  ASSERT_EQ(good[count], 3);
  Bytes two_components = good;
  two_components[count] = 2;
  Bytes many_components = good;
  many_components[count] = 5;
  for (const Bytes& changed : {two_components, many_components, MakeJpeg(40, 50, 1),
                               MakeJpeg(40, 51, 3), Bytes(good.begin(), good.begin() + 40)}) {
    EXPECT_THROW(PlaneDecoder(changed, header, {}), Error);
  }
  const PlaneDecoder unchanged(good, header, {});
  EXPECT_EQ(unchanged.plane_count(), size_t{3});
}

// Of a file with one scan the message, too: which damage is found first. With several, the library
// goes on behind the first, and may stumble over a worse one.
TEST(PlaneDecoder, FindsTheDamageThatTheLibraryFinds) {
  std::mt19937 random(21);
  const std::vector<Kind> kinds = Kinds();
  for (const Kind& kind : kinds) {
    int refused = 0;
    int accepted = 0;
    for (const bool optimized : {false, true}) {
      for (const int restart_rows : {0, 1}) {
        JpegOptions options = kind.options;
        options.optimized = optimized;
        options.restart_rows = restart_rows;
        const Bytes good = MakeJpeg(96, 128, 3, options);
        const size_t header_bytes = FindFrame(good) + 200;
        for (int round = 0; round < 150; ++round) {
          Bytes file = good;
          const size_t at = header_bytes + random() % (file.size() - header_bytes);
          switch (round % 5) {
            case 0:
              file[at] = 0xFF;
              break;
            case 1:
              file[at] = static_cast<uint8_t>(random());
              break;
            case 2:
              file.resize(at);
              break;
            case 3:
              file.erase(file.begin() + static_cast<ptrdiff_t>(at));
              break;
            default:
              file.insert(file.begin() + static_cast<ptrdiff_t>(at),
                          {0xFF, static_cast<uint8_t>(kRst0 + random() % 8)});
          }
          (Decode(file, By::kEndcap).error.empty() ? accepted : refused) += 1;
          const std::string what = std::string(kind.name) + ", round " + std::to_string(round);
          if (&kind == &kinds.front()) {
            ExpectEqual(file, what);
            continue;
          }
          const Outcome expected = Decode(file, By::kLibrary);
          const Outcome actual = Decode(file, By::kEndcap);
          EXPECT_EQ(actual.error.empty(), expected.error.empty())
              << what << ": " << actual.error << "; the library: " << expected.error;
          EXPECT_TRUE(!expected.error.empty() || actual.samples == expected.samples) << what;
        }
      }
    }
    EXPECT_GT(refused, 100) << kind.name;
    EXPECT_GT(accepted, 50) << kind.name;
  }
}

// What the library would overlook in the middle of a file: it takes a bad code for a zero there.
TEST(PlaneDecoder, RefusesABadCodeAnywhere) {
  JpegOptions options;
  options.quality = 98;
  options.luma_columns = options.luma_rows = 1;
  const Bytes noise = Noise(400, 400, 3);
  Bytes file = WriteJpeg(noise, 400, 400, 3, options);
  const size_t middle = file.size() / 2;
  for (size_t i = 0; i < 16; i += 2) {
    file[middle + i] = 0xFF;
    file[middle + i + 1] = 0;
  }
  for (const By by : {By::kLibrary, By::kEndcap}) {
    EXPECT_NE(Decode(file, by).error.find("bad Huffman code"), std::string::npos);
  }
}

// "No restart markers" between two scans has the library hurry in the second one.
TEST(PlaneDecoder, RefusesABadCodeBehindASegmentBetweenScans) {
  JpegOptions options;
  options.quality = 98;
  options.separate_scans = true;
  options.luma_columns = options.luma_rows = 1;
  Bytes file = WriteJpeg(Noise(200, 200, 3), 200, 200, 3, options);
  const Bytes last_scan = {0xFF, kSos, 0, 8, 1, 3};
  const auto at = std::search(file.begin(), file.end(), last_scan.begin(), last_scan.end());
  ASSERT_NE(at, file.end());
  const size_t middle = static_cast<size_t>(at - file.begin()) / 2 + file.size() / 2;
  for (size_t i = 0; i < 16; i += 2) {
    file[middle + i] = 0xFF;
    file[middle + i + 1] = 0;
  }
  file.insert(at, {0xFF, 0xDD, 0, 4, 0, 0});
  for (const By by : {By::kLibrary, By::kEndcap}) {
    const std::string error = Decode(file, by).error;
    EXPECT_NE(error.find("bad Huffman code"), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace endcap
