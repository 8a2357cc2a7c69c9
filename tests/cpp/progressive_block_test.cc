#include "decode/progressive_block.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <random>
#include <tuple>
#include <vector>

#include "decode/huffman_block.h"

namespace endcap {
namespace {

using Block = std::array<int16_t, kBlockValues>;

// Codes for a scan that refines: of four bits the runs from 0 to 4 and of 8 bits others, with one
// new coefficient each; ends of 1, 2 to 3, and 8 to 15 blocks; 16 zeros. The codes of all ones are
// no codes.
struct TestCodes : HuffmanCodes {
  TestCodes() {
    const std::array<uint8_t, 13> of_four = {0x01, 0x11, 0x21, 0x31, 0x41, 0x00, 0x10,
                                             0x30, 0xF0, 0x51, 0x61, 0x71, 0x81};
    const std::array<uint8_t, 7> of_eight = {0x91, 0xA1, 0xB1, 0xC1, 0xD1, 0xE1, 0xF1};
    counts[3] = of_four.size();
    counts[7] = of_eight.size();
    std::copy(of_four.begin(), of_four.end(), symbols.begin());
    std::copy(of_eight.begin(), of_eight.end(), symbols.begin() + of_four.size());
  }
};

// As the standard has it: a coefficient at a time.
class Oracle {
 public:
  Oracle(ScanBits& bits, const HuffmanTable& table) : bits_(bits), table_(table) {}

  bool Decode(const SpectralBand& band, uint32_t& eob_run, Block& block) {
    size_t k = band.first;
    const int bit = 1 << band.low;
    if (eob_run == 0) {
      for (; k <= band.last; ++k) {
        bits_.Fill();
        const HuffmanEntry code = table_.Search(bits_.bits);
        bits_.Drop(code.length);
        if (code.length > HuffmanTable::kLongestCode) return false;
        if (code.value_bits() == 0 && code.run() < 15) {
          eob_run = 1;
          for (unsigned i = 0; i < code.run(); ++i) eob_run = eob_run * 2 + Take();
          break;
        }
        int begun = 0;
        if (code.value_bits() == 1) begun = Take() != 0 ? bit : -bit;
        unsigned zeros_to_pass = code.run();
        for (; k <= band.last; ++k) {
          if (block[kNaturalOrder[k]] != 0) {
            Correct(bit, block[kNaturalOrder[k]]);
          } else if (zeros_to_pass-- == 0) {
            break;
          }
        }
        if (begun != 0) block[kNaturalOrder[k]] = static_cast<int16_t>(begun);
      }
    }
    if (eob_run == 0) return true;
    for (; k <= band.last; ++k) {
      if (block[kNaturalOrder[k]] != 0) Correct(bit, block[kNaturalOrder[k]]);
    }
    --eob_run;
    return true;
  }

 private:
  unsigned Take() {
    bits_.Fill();
    const auto one = static_cast<unsigned>(bits_.bits >> 63);
    bits_.Drop(1);
    return one;
  }
  void Correct(int bit, int16_t& value) {
    if (Take() == 0 || (value & bit) != 0) return;
    value = static_cast<int16_t>(value < 0 ? value - bit : value + bit);
  }

  ScanBits& bits_;
  const HuffmanTable& table_;
};

uint64_t FindNonzero(const Block& block) {
  uint64_t places = 0;
  for (size_t k = 1; k < kBlockValues; ++k) {
    if (block[kNaturalOrder[k]] != 0) places |= PlaceBit(k);
  }
  return places;
}

// How many bits were read.
int64_t Position(const ScanBits& bits, const std::vector<uint8_t>& data) {
  return (bits.next - data.data()) * 8 - static_cast<int64_t>(bits.count);
}

void ExpectTheStandardsBlocks(DecodeAcBits decode) {
  std::mt19937 random(4);
  const TestCodes codes;
  const HuffmanTable table(HuffmanTable::Use::kBits, codes);
  int good = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<uint8_t> data(4096);
    for (uint8_t& byte : data) byte = static_cast<uint8_t>(random());
    const size_t first = 1 + random() % 63;
    const SpectralBand band = {first, first + random() % (64 - first),
                               static_cast<unsigned>(random() % 4)};
    const auto one_in = 1 + random() % 20;
    ScanBits ours{0, 0, data.data()};
    ScanBits theirs = ours;
    Oracle oracle(theirs, table);
    uint32_t our_blocks = 0;
    uint32_t their_blocks = 0;
    for (int b = 0; b < 8; ++b) {
      Block block{};
      for (int16_t& value : block) {
        const auto high = static_cast<int>(random() % 9) - 4;
        if (random() % one_in == 0) value = static_cast<int16_t>(high * (2 << band.low));
      }
      Block expected = block;
      uint64_t nonzero = FindNonzero(block);
      const bool is_good = oracle.Decode(band, their_blocks, expected);
      ASSERT_EQ(decode(ours, table, band, our_blocks, {block.data(), &nonzero}), is_good);
      if (!is_good) break;
      ++good;
      ASSERT_EQ(block, expected) << "round " << round;
      ASSERT_EQ(nonzero & ~PlaceBit(0), FindNonzero(expected)) << "round " << round;
      ASSERT_EQ(our_blocks, their_blocks);
      ASSERT_EQ(Position(ours, data), Position(theirs, data));
    }
  }
  EXPECT_GT(good, 3000);
}

TEST(ProgressiveBlock, RefinesAsTheStandardSays) { ExpectTheStandardsBlocks(DecodeAcBitsAnywhere); }

TEST(ProgressiveBlock, RefinesByDepositAsTheStandardSays) {
  const DecodeAcBits by_deposit = DecodeAcBitsByDeposit();
  if (by_deposit == nullptr) GTEST_SKIP() << "this CPU has no PDEP that is fast";
  ExpectTheStandardsBlocks(by_deposit);
}

// 63 coefficients are more than the bits that are at hand at once.
TEST(ProgressiveBlock, RefinesAFullBlock) {
  const TestCodes codes;
  const HuffmanTable table(HuffmanTable::Use::kBits, codes);
  const std::vector<uint8_t> data(64, 0xFF);
  for (const DecodeAcBits decode : {DecodeAcBitsAnywhere, DecodeAcBitsByDeposit()}) {
    if (decode == nullptr) continue;
    Block block;
    block.fill(-2);
    Block expected;
    expected.fill(-3);
    expected[0] = -2;
    uint64_t nonzero = FindNonzero(block);
    uint32_t eob_run = 1;
    ScanBits bits{0, 0, data.data()};
    ASSERT_TRUE(decode(bits, table, {1, 63, 0}, eob_run, {block.data(), &nonzero}));
    EXPECT_EQ(block, expected);
    EXPECT_EQ(eob_run, 0U);
    EXPECT_EQ(Position(bits, data), 63);
  }
}

// As libjpeg-turbo refuses it.
TEST(ProgressiveBlock, ADcCoefficientThatLeavesItsTypeIsAnError) {
  TestCodes codes;
  codes.symbols[0] = 2;  // differences of two bits
  const HuffmanTable table(HuffmanTable::Use::kDc, codes);
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  for (const auto& [last, bits, is_good] : {std::tuple{kMost - 3, 0b0000'1100, true},
                                            {kMost - 2, 0b0000'1100, false},
                                            {-kMost + 2, 0b0000'0000, true},
                                            {-kMost + 1, 0b0000'0000, false}}) {
    std::vector<uint8_t> data(16);
    data[0] = static_cast<uint8_t>(bits);
    ScanBits scan{0, 0, data.data()};
    int32_t last_dc = last;
    int16_t coefficient = 0;
    EXPECT_EQ(DecodeFirstDc(scan, table, 1, last_dc, &coefficient), is_good) << last;
  }
}

TEST(ProgressiveBlock, FirstCoefficientsAreShiftedAndNoted) {
  TestCodes codes;
  codes.symbols[5] = 0x22;  // instead of an end: two zeros and a value of two bits
  const HuffmanTable table(HuffmanTable::Use::kBands, codes);
  // 0101 and 11: 3 at the third place; 0000 and 0: -1; 0110 and 1: an end of three blocks.
  const std::vector<uint8_t> data = {0b0101'1100, 0b0000'1101, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                     0,           0,           0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  ScanBits bits{0, 0, data.data()};
  Block block{};
  uint64_t nonzero = 0;
  uint32_t eob_run = 0;
  ASSERT_TRUE(DecodeFirstAc(bits, table, {1, 63, 2}, eob_run, {block.data(), &nonzero}));
  Block expected{};
  expected[kNaturalOrder[3]] = 12;
  expected[kNaturalOrder[4]] = -4;
  EXPECT_EQ(block, expected);
  EXPECT_EQ(nonzero, PlaceBit(3) | PlaceBit(4));
  EXPECT_EQ(eob_run, 2U);
  EXPECT_EQ(Position(bits, data), 16);
}

}  // namespace
}  // namespace endcap
