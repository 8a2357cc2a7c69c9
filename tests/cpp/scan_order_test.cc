// Files whose scans are not those that an encoder writes, one after the other.

#include <gtest/gtest.h>

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
using testing::JpegOptions;
using testing::Kind;
using testing::Kinds;
using testing::MakeJpeg;
using testing::Outcome;

// A file in pieces: what comes before the first scan, then each scan with the tables before it.
struct Pieces {
  Bytes header;
  std::vector<Bytes> scans;

  Bytes Join() const {
    Bytes file = header;
    for (const Bytes& scan : scans) file.insert(file.end(), scan.begin(), scan.end());
    file.insert(file.end(), {0xFF, kEoi});
    return file;
  }
};

size_t SegmentEnd(const Bytes& file, size_t marker) {
  return marker + 2U + file.at(marker + 2) * 256U + file.at(marker + 3);
}

// Of a scan's piece: where its SOS marker is.
size_t FindSos(const Bytes& scan) {
  size_t at = 0;
  while (scan.at(at + 1) != kSos) at = SegmentEnd(scan, at);
  return at;
}

Pieces Split(const Bytes& file) {
  Pieces pieces;
  const size_t frame_end = SegmentEnd(file, testing::FindFrame(file));
  pieces.header.assign(file.begin(), file.begin() + static_cast<ptrdiff_t>(frame_end));
  for (size_t begin = frame_end; file.at(begin + 1) != kEoi;) {
    size_t at = begin;
    while (file.at(at + 1) != kSos) at = SegmentEnd(file, at);
    at = SegmentEnd(file, at);
    while (file.at(at) != 0xFF || file.at(at + 1) == 0 ||
           (file.at(at + 1) >= kRst0 && file.at(at + 1) <= kRst7)) {
      ++at;
    }
    pieces.scans.emplace_back(file.begin() + static_cast<ptrdiff_t>(begin),
                              file.begin() + static_cast<ptrdiff_t>(at));
    begin = at;
  }
  return pieces;
}

// Drops, repeats or pending_requests scans, changes what one says of itself, or puts in a restart
// interval.
void Change(Pieces& pieces, std::mt19937& random) {
  std::vector<Bytes>& scans = pieces.scans;
  if (scans.empty()) return;
  const size_t one = random() % scans.size();
  const size_t other = random() % scans.size();
  Bytes& scan = scans[one];
  const size_t sos = FindSos(scan);
  const size_t spectral = SegmentEnd(scan, sos) - 3;  // first, last, bits
  switch (random() % 6) {
    case 0:
      scans.erase(scans.begin() + static_cast<ptrdiff_t>(one));
      break;
    case 1:
      scans.insert(scans.begin() + static_cast<ptrdiff_t>(other), Bytes(scan));
      break;
    case 2:
      std::swap(scan, scans[other]);
      break;
    case 3:
      scan[spectral + random() % 2] = static_cast<uint8_t>(random() % 64);
      break;
    case 4:
      scan[spectral + 2] = static_cast<uint8_t>(random() % 4 * 16 + random() % 4);
      break;
    default:
      scan.insert(scan.begin(), {0xFF, 0xDD, 0, 4, 0, static_cast<uint8_t>(random() % 4)});
  }
}

TEST(ScanOrder, OfAnyKindGivesTheLibrarysPixelsAndErrors) {
  std::mt19937 random(8);
  for (const Kind& kind : Kinds()) {
    int accepted = 0;
    int refused = 0;
    for (const int channels : {1, 3}) {
      for (const int restart_rows : {0, 1}) {
        JpegOptions options = kind.options;
        options.restart_rows = restart_rows;
        const Pieces good = Split(MakeJpeg(40, 56, channels, options));
        for (int round = 0; round < 300; ++round) {
          Pieces pieces = good;
          for (auto change = random() % 3; change < 3; ++change) Change(pieces, random);
          const Bytes file = pieces.Join();
          const Outcome expected = Decode(file, By::kLibrary);
          const Outcome actual = Decode(file, By::kEndcap);
          const std::string what = std::string(kind.name) + ", round " + std::to_string(round);
          ASSERT_EQ(actual.error.empty(), expected.error.empty())
              << what << ": " << actual.error << "; the library: " << expected.error;
          ASSERT_TRUE(!expected.error.empty() || actual.samples == expected.samples) << what;
          (expected.error.empty() ? accepted : refused) += 1;
        }
      }
    }
    EXPECT_GT(accepted, 20) << kind.name;
    EXPECT_GT(refused, 20) << kind.name;
  }
}

// What the library skips between scans does not hide the scans behind it.
TEST(ScanOrder, EveryScanCounts) {
  JpegOptions options;
  options.bit_by_bit = true;
  const Pieces good = Split(MakeJpeg(40, 56, 1, options));
  const auto count = static_cast<int>(good.scans.size());
  for (const Bytes& between : {Bytes{0xFF, 0xFE, 0, 0}, Bytes{0xFF, 0xFE, 0, 1}, Bytes{0xFF, kTem},
                               Bytes{0xFF, 0xFE, 0, 2}, Bytes{0xFF, 0xFE, 0, 4, 0xFF, kEoi},
                               Bytes{7, 0xFF, 0xFF, kRst0}}) {
    Pieces pieces = good;
    pieces.scans[1].insert(pieces.scans[1].begin(), between.begin(), between.end());
    const Bytes file = pieces.Join();
    for (const By by : {By::kLibrary, By::kEndcap}) EXPECT_EQ(Decode(file, by).error, "");
    EXPECT_EQ(ReadHeader(testing::Encoded(file), {}).scan_count, count);
    EXPECT_THROW(ReadHeader(testing::Encoded(file), {.max_scans = count - 1}), Error);
  }
}

// Memory that somebody writes to between header and decoding.
TEST(ScanOrder, MoreScansThanTheHeaderCountedAreAnError) {
  JpegOptions options;
  options.progressive = true;
  const Bytes file = MakeJpeg(40, 56, 3, options);
  ImageHeader header = ReadHeader(testing::Encoded(file), {});
  --header.scan_count;
  PlaneDecoder decoder(file, header, {});
  try {
    decoder.Start();
    FAIL() << "it started";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorruptImage);
    EXPECT_NE(std::string(error.what()).find("more than the 9 scans counted"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace endcap
