#include "decode/huffman_table.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "random_codes.h"

namespace endcap {
namespace {

using Use = HuffmanTable::Use;
using testing::FindCode;
using testing::RandomCodes;

int SymbolsOf(Use use) { return use == Use::kDc ? 16 : 256; }

struct Coefficient {
  unsigned length = 0;
  unsigned step = 0;
  int value = 0;
};

// The code at the front, and its value. Step 0: a run of zeros alone, or a bad code.
Coefficient FindCoefficient(const HuffmanCodes& codes, Use use, uint64_t bits) {
  const HuffmanCode code = FindCode(codes, bits);
  const unsigned size = code.value_bits();
  if (code.length > 16) return {17, 0, 0};
  if (size == 0 && use == Use::kBands) return {code.length, 0, 0};
  const uint64_t behind = bits << code.length;
  const auto value = size == 0 ? 0U : static_cast<uint32_t>(behind >> (64 - size));
  const bool negative = size > 0 && behind >> 63 == 0;
  return {code.length + size, code.run() + 1,
          static_cast<int>(value) - (negative ? (1 << size) - 1 : 0)};
}

class HuffmanTables : public ::testing::TestWithParam<Use> {};

TEST_P(HuffmanTables, SayWhatTheBitsSayOneByOne) {
  std::mt19937_64 random_bits(7);
  std::mt19937 random(5);
  int pairs = 0;
  int longer = 0;
  for (int round = 0; round < 40; ++round) {
    const HuffmanCodes codes = RandomCodes(SymbolsOf(GetParam()), random);
    const HuffmanTable table(GetParam(), codes);
    for (int i = 0; i < 2000; ++i) {
      const uint64_t bits = i == 0 ? ~uint64_t{0} : random_bits();
      const HuffmanEntry searched = table.Search(bits);
      const HuffmanCode code = FindCode(codes, bits);
      ASSERT_EQ(searched.length(), code.length);
      ASSERT_EQ(searched.run(), code.run());
      ASSERT_EQ(searched.value_bits(), code.value_bits());

      const HuffmanEntry entry = table.Look(bits);
      const Coefficient first = FindCoefficient(codes, GetParam(), bits);
      if (entry.nothing()) {
        ASSERT_GT(code.length, kHuffmanLookupBits);
        ++longer;
      } else if (!entry.has_values()) {
        ASSERT_EQ(entry.length(), code.length);
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
  EXPECT_EQ(pairs > 100, GetParam() == Use::kBands);
}

INSTANTIATE_TEST_SUITE_P(Of, HuffmanTables, ::testing::Values(Use::kDc, Use::kBands),
                         [](const auto& use) { return use.param == Use::kDc ? "Dc" : "Bands"; });

TEST(HuffmanTable, WithoutCodesHasNone) {
  const HuffmanCodes codes;
  const HuffmanTable table(Use::kBands, codes);
  EXPECT_TRUE(table.Look(0).nothing());
  EXPECT_EQ(table.Search(0).length(), 17);
}

TEST(HuffmanTable, LeavesOutWhatIsNoPrefixCode) {
  HuffmanCodes codes;
  codes.counts.fill(200);
  const HuffmanTable table(Use::kBands, codes);
  EXPECT_EQ(table.Look(0).length(), 1);
  EXPECT_LE(table.Search(~uint64_t{0}).length(), 17);
}

TEST(HuffmanCache, KeepsTheTablesOfTheLastFiles) {
  std::mt19937 random(3);
  std::vector<HuffmanCodes> all;
  for (int i = 0; i < 13; ++i) all.push_back(RandomCodes(SymbolsOf(Use::kDc), random));
  const auto table_of = [&all](size_t i, Use use = Use::kDc) {
    return GetHuffmanTable(use, all[i]);
  };
  const auto first = table_of(0);
  EXPECT_NE(table_of(0, Use::kBands), first);
  for (size_t i = 1; i < 11; ++i) EXPECT_NE(table_of(i), first);
  EXPECT_EQ(table_of(0), first);
  EXPECT_NE(table_of(12), first);
  EXPECT_NE(table_of(0), first);  // left the cache; who has it keeps it
  EXPECT_EQ(first->Search(0).length(), table_of(0)->Search(0).length());
}

}  // namespace
}  // namespace endcap
