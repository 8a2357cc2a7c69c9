#include "decode/huffman_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

namespace endcap {
namespace {

using Use = HuffmanTable::Use;

// Codes of random lengths for the symbols 0 to 255, or 0 to 15, in random order; never all ones.
HuffmanCodes RandomCodes(Use use, std::mt19937& random) {
  HuffmanCodes codes;
  const int wanted = use == Use::kDc ? 16 : 256;
  int room = 1;  // codes of the current length that are no prefix of another, nor have another
  int made = 0;
  for (size_t length = 1; length <= 16; ++length) {
    room *= 2;
    const int left = wanted - made;
    // Enough room must remain for the others, and for the code of all ones.
    const int most = std::min({room - 1, left, static_cast<int>(length) * 2});
    int count = length < 16 ? static_cast<int>(random() % (static_cast<unsigned>(most) + 1)) : left;
    while (((room - count) << (16 - length)) < left - count + 1) --count;
    codes.counts[length - 1] = static_cast<uint8_t>(count);
    room -= count;
    made += count;
  }
  EXPECT_EQ(made, wanted);
  for (int i = 0; i < wanted; ++i) codes.symbols[static_cast<size_t>(i)] = static_cast<uint8_t>(i);
  std::shuffle(codes.symbols.begin(), codes.symbols.begin() + wanted, random);
  return codes;
}

// A code by the standard's own way: a bit at a time. Length 17: there is none.
HuffmanEntry FindCode(const HuffmanCodes& codes, uint64_t bits) {
  uint32_t code = 0;
  uint32_t first = 0;
  size_t position = 0;
  for (unsigned length = 1; length <= 16; ++length) {
    code = static_cast<uint32_t>(bits >> (64 - length));
    const uint32_t count = codes.counts[length - 1];
    if (code - first < count) {
      return HuffmanEntry::Code(length, codes.symbols[position + code - first]);
    }
    position += count;
    first = (first + count) << 1;
  }
  return HuffmanEntry::Code(17, 0);
}

struct Coefficient {
  unsigned length = 0;
  unsigned step = 0;
  int value = 0;
};

// The code at the front, and its value. Step 0: a run of zeros alone, or a bad code.
Coefficient FindCoefficient(const HuffmanCodes& codes, Use use, uint64_t bits) {
  const HuffmanEntry code = FindCode(codes, bits);
  const unsigned size = code.value_bits();
  if (code.length() > 16) return {17, 0, 0};
  if (size == 0 && use == Use::kAc) {
    return {code.length(), code.run() == 15 ? 0 : HuffmanEntry::kEnd, 0};
  }
  const uint64_t behind = bits << code.length();
  const auto value = size == 0 ? 0U : static_cast<uint32_t>(behind >> (64 - size));
  const bool negative = size > 0 && behind >> 63 == 0;
  return {code.length() + size, code.run() + 1,
          static_cast<int>(value) - (negative ? (1 << size) - 1 : 0)};
}

class HuffmanTables : public ::testing::TestWithParam<Use> {};

TEST_P(HuffmanTables, SayWhatTheBitsSayOneByOne) {
  std::mt19937_64 random_bits(7);
  std::mt19937 random(5);
  int pairs = 0;
  int longer = 0;
  for (int round = 0; round < 40; ++round) {
    const HuffmanCodes codes = RandomCodes(GetParam(), random);
    const HuffmanTable table(GetParam(), codes);
    for (int i = 0; i < 2000; ++i) {
      const uint64_t bits = i == 0 ? ~uint64_t{0} : random_bits();
      const HuffmanEntry searched = table.Search(bits);
      const HuffmanEntry code = FindCode(codes, bits);
      ASSERT_EQ(searched.length(), code.length());
      ASSERT_EQ(searched.run(), code.run());
      ASSERT_EQ(searched.value_bits(), code.value_bits());

      const HuffmanEntry entry = table.Look(bits);
      const Coefficient first = FindCoefficient(codes, GetParam(), bits);
      if (entry.nothing()) {
        ASSERT_GT(code.length(), kHuffmanLookupBits);
        ++longer;
      } else if (!entry.has_values()) {
        ASSERT_EQ(entry.length(), code.length());
        ASSERT_EQ(entry.run(), code.run());
        ASSERT_EQ(entry.value_bits(), code.value_bits());
        ASSERT_TRUE(first.step == 0 || first.length > kHuffmanLookupBits);
      } else {
        ASSERT_EQ(entry.first_length(), first.length);
        ASSERT_EQ(entry.first_step(), first.step);
        ASSERT_EQ(entry.first_value(), first.value);
        ASSERT_LE(entry.length(), kHuffmanLookupBits);
        if (entry.length() == first.length) {
          ASSERT_EQ(entry.second_step(), 0);
          ASSERT_EQ(entry.second_value(), first.value);
          continue;
        }
        const Coefficient second = FindCoefficient(codes, GetParam(), bits << first.length);
        ASSERT_EQ(entry.length(), first.length + second.length);
        ASSERT_EQ(entry.second_step(), second.step);
        ASSERT_EQ(entry.second_value(), second.value);
        ++pairs;
      }
    }
  }
  EXPECT_GT(longer, 100);
  EXPECT_EQ(pairs > 100, GetParam() == Use::kAc);
}

INSTANTIATE_TEST_SUITE_P(Of, HuffmanTables, ::testing::Values(Use::kDc, Use::kAc),
                         [](const auto& use) { return use.param == Use::kDc ? "Dc" : "Ac"; });

TEST(HuffmanTable, WithoutCodesHasNone) {
  const HuffmanCodes codes;
  const HuffmanTable table(Use::kAc, codes);
  EXPECT_TRUE(table.Look(0).nothing());
  EXPECT_EQ(table.Search(0).length(), 17);
}

TEST(HuffmanTable, LeavesOutWhatIsNoPrefixCode) {
  HuffmanCodes codes;
  codes.counts.fill(200);
  const HuffmanTable table(Use::kAc, codes);
  EXPECT_EQ(table.Look(0).first_length(), 1);
  EXPECT_LE(table.Search(~uint64_t{0}).length(), 17);
}

TEST(HuffmanCache, KeepsTheTablesOfTheLastFiles) {
  std::mt19937 random(3);
  std::vector<HuffmanCodes> all;
  for (int i = 0; i < 13; ++i) all.push_back(RandomCodes(Use::kDc, random));
  const auto table_of = [&all](size_t i, Use use = Use::kDc) {
    return GetHuffmanTable(use, all[i]);
  };
  const auto first = table_of(0);
  EXPECT_NE(table_of(0, Use::kAc), first);
  for (size_t i = 1; i < 11; ++i) EXPECT_NE(table_of(i), first);
  EXPECT_EQ(table_of(0), first);
  EXPECT_NE(table_of(12), first);
  EXPECT_NE(table_of(0), first);  // left the cache; who has it keeps it
  EXPECT_EQ(first->Search(0).length(), table_of(0)->Search(0).length());
}

}  // namespace
}  // namespace endcap
