// Ends of entropy-coded data. Whole files are compared with libjpeg-turbo by plane_decoder_test.cc.

#include "decode/scan_bytes.h"

#include <gtest/gtest.h>

#include <vector>

#include "decode/jpeg_markers.h"

namespace endcap {
namespace {

using Bytes = std::vector<uint8_t>;

// The bytes up to the marker, which a window holds.
Bytes ReadAll(ScanBytes& bytes) {
  ScanBits bits;
  bytes.Begin(bits);
  for (Bytes data;;) {
    bits.Fill();
    const auto byte = static_cast<uint8_t>(bits.bits >> 56);
    bits.Drop(8);
    if (bytes.IsPastEnd(bits)) return data;
    data.push_back(byte);
  }
}

TEST(ScanBytes, SeveralFillBytesBeforeAZeroAreOneByteOfData) {
  const Bytes file = {9, 0xFF, 0xFF, 0xFF, 0, 8, 0xFF, kEoi};
  ScanBytes bytes;
  bytes.SetRaw(file);
  EXPECT_EQ(ReadAll(bytes), (Bytes{9, 0xFF, 8}));
}

TEST(ScanBytes, AMarkerIsFoundBehindDataThatNobodyRead) {
  Bytes file(20000, 5);  // several windows
  file.insert(file.end(), {0xFF, kRst7, 77});
  ScanBytes bytes;
  bytes.SetRaw(file);
  ScanBits bits;
  bytes.Begin(bits);
  EXPECT_EQ(bytes.SkipToMarker(), kRst7);
  EXPECT_TRUE(bytes.has_marker());
  ASSERT_EQ(bytes.rest().size(), 1U);
  EXPECT_EQ(bytes.rest()[0], 77);
  EXPECT_EQ(ReadAll(bytes), Bytes{77});
}

TEST(ScanBytes, PastTheEndIsExactToTheBit) {
  const Bytes file = {0xA5, 0xFF, kEoi};
  ScanBytes bytes;
  bytes.SetRaw(file);
  ScanBits bits;
  bytes.Begin(bits);
  bits.Fill();
  bits.Drop(8);
  EXPECT_FALSE(bytes.IsPastEnd(bits));
  bits.Drop(1);
  EXPECT_TRUE(bytes.IsPastEnd(bits));
}

}  // namespace
}  // namespace endcap
