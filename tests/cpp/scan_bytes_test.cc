#include "decode/scan_bytes.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "decode/jpeg_markers.h"

namespace endcap {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes Stuffed(const Bytes& data) {
  Bytes stuffed;
  for (const uint8_t byte : data) {
    stuffed.push_back(byte);
    if (byte == 0xFF) stuffed.push_back(0);
  }
  return stuffed;
}

Bytes RandomBytes(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes(count);
  for (uint8_t& byte : bytes) byte = random() % 4 == 0 ? 0xFF : static_cast<uint8_t>(random());
  return bytes;
}

// All bytes up to the marker, read in blocks of `block` bytes or less.
Bytes ReadAll(ScanBytes& bytes, ScanBits& bits, size_t block) {
  Bytes data;
  for (;;) {
    if (!bytes.HasBlock(bits)) bytes.Move(bits);
    const bool at_end = !bytes.HasBlock(bits);
    for (size_t i = 0; i < block; ++i) {
      bits.Fill();
      const auto byte = static_cast<uint8_t>(bits.bits >> 56);
      bits.Drop(8);
      if (at_end && bytes.IsPastEnd(bits)) return data;
      data.push_back(byte);
    }
  }
}

ScanBytes CountBytes(const Bytes& file) {
  ScanBytes bytes;
  bytes.SetRaw(file);
  return bytes;
}

TEST(ScanBytes, AreThoseBeforeTheMarkerWithoutStuffing) {
  for (const size_t count : {0U, 1U, 7U, 8U, 255U, 3800U, 4095U, 4096U, 4097U, 30000U}) {
    for (const size_t block : {1U, 31U, 248U}) {
      const Bytes data = RandomBytes(count, 11);
      Bytes file = Stuffed(data);
      file.insert(file.end(), {0xFF, 0xFF, kRst0 + 3, 1, 2, 3});
      ScanBytes bytes = CountBytes(file);
      ScanBits bits;
      bytes.Begin(bits);
      ASSERT_EQ(ReadAll(bytes, bits, block), data) << count << " in blocks of " << block;
      EXPECT_EQ(bytes.SkipToMarker(), kRst0 + 3);
      bytes.Begin(bits);
      ASSERT_EQ(ReadAll(bytes, bits, block), (Bytes{1, 2, 3}));
      EXPECT_EQ(bytes.SkipToMarker(), kEoi);
    }
  }
}

TEST(ScanBytes, EndWithTheFile) {
  for (const Bytes& tail : {Bytes{}, Bytes{0xFF}, Bytes{0xFF, 0xFF}, Bytes{0xFF, kEoi}}) {
    Bytes file = {1, 2, 3};
    file.insert(file.end(), tail.begin(), tail.end());
    ScanBytes bytes = CountBytes(file);
    ScanBits bits;
    bytes.Begin(bits);
    EXPECT_EQ(ReadAll(bytes, bits, 1), (Bytes{1, 2, 3}));
    EXPECT_EQ(bytes.SkipToMarker(), kEoi);
    EXPECT_EQ(bytes.has_marker(), !tail.empty() && tail.back() == kEoi);
    EXPECT_TRUE(bytes.rest().empty());
  }
}

TEST(ScanBytes, SeveralFillBytesBeforeAZeroAreOneByteOfData) {
  const Bytes file = {9, 0xFF, 0xFF, 0xFF, 0, 8, 0xFF, kEoi};
  ScanBytes bytes = CountBytes(file);
  ScanBits bits;
  bytes.Begin(bits);
  EXPECT_EQ(ReadAll(bytes, bits, 1), (Bytes{9, 0xFF, 8}));
}

TEST(ScanBytes, AMarkerIsFoundBehindDataThatNobodyRead) {
  Bytes file = Stuffed(RandomBytes(20000, 5));
  file.insert(file.end(), {0xFF, kRst7, 77});
  ScanBytes bytes = CountBytes(file);
  ScanBits bits;
  bytes.Begin(bits);
  EXPECT_EQ(bytes.SkipToMarker(), kRst7);
  EXPECT_TRUE(bytes.has_marker());
  ASSERT_EQ(bytes.rest().size(), 1U);
  EXPECT_EQ(bytes.rest()[0], 77);
  bytes.Begin(bits);
  EXPECT_EQ(ReadAll(bytes, bits, 1), Bytes{77});
}

TEST(ScanBytes, PastTheEndIsExactToTheBit) {
  const Bytes file = {0xA5, 0xFF, kEoi};
  ScanBytes bytes = CountBytes(file);
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
