#include "decode/block_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "decode/huffman_table.h"
#include "decode/jpeg_markers.h"
#include "endcap/error.h"

// Blocks of random codes and random data against a reader that takes one bit after the other.

namespace endcap {
namespace {

using Bytes = std::vector<uint8_t>;
using BlockValues = std::array<int16_t, kBlockValues>;

Bytes RandomData(size_t count, std::mt19937& random) {
  Bytes data(count);
  for (uint8_t& byte : data) byte = static_cast<uint8_t>(random());
  return data;
}

Bytes WithStuffing(const Bytes& data) {
  Bytes stuffed;
  for (const uint8_t byte : data) {
    stuffed.push_back(byte);
    if (byte == 0xFF) stuffed.push_back(0);
  }
  stuffed.insert(stuffed.end(), {0xFF, kEoi});
  return stuffed;
}

// Codes of random lengths for the symbols 0 to `wanted` - 1 in random order; never all ones.
HuffmanCodes RandomCodes(int wanted, std::mt19937& random) {
  HuffmanCodes codes;
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
HuffmanCode FindCode(const HuffmanCodes& codes, uint64_t bits) {
  uint32_t code = 0;
  uint32_t first = 0;
  size_t position = 0;
  for (unsigned length = 1; length <= 16; ++length) {
    code = static_cast<uint32_t>(bits >> (64 - length));
    const uint32_t count = codes.counts[length - 1];
    if (code - first < count) {
      return {length, codes.symbols[position + code - first]};
    }
    position += count;
    first = (first + count) << 1;
  }
  return {17, 0};
}

// Codes of almost all bits, so that random data are blocks: short ones and long ones.
HuffmanCodes CodesOfAnyBits(bool is_dc, std::mt19937& random) {
  HuffmanCodes codes;
  if (is_dc) {
    codes.counts = {0, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    std::iota(codes.symbols.begin(), codes.symbols.begin() + 15, uint8_t{0});
    std::shuffle(codes.symbols.begin(), codes.symbols.begin() + 15, random);
  } else {
    codes.counts = {0, 1, 3, 3, 2, 4, 7, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    constexpr std::array<uint8_t, 29> kSymbols = {
        0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0A, 0x11, 0x12, 0x13, 0x15,
        0x21, 0x22, 0x23, 0x31, 0x32, 0x41, 0x51, 0x61, 0x71, 0x81, 0xA5, 0xE9, 0xF0, 0xFA};
    std::ranges::copy(kSymbols, codes.symbols.begin());
    std::shuffle(codes.symbols.begin(), codes.symbols.begin() + kSymbols.size(), random);
  }
  return codes;
}

// The standard's way. Source: ITU-T T.81, F.2.2.
class Oracle {
 public:
  explicit Oracle(const Bytes& data) : data_(data) {}

  bool is_past_end() const { return at_ > 8 * data_.size(); }
  // False: a bad code.
  bool Read(const HuffmanCodes& dc, const HuffmanCodes& ac, BlockValues& block, size_t& last) {
    HuffmanCode code;
    if (!Take(dc, code)) return false;
    block[0] = static_cast<int16_t>(Value(code.value_bits()));
    last = 0;
    for (size_t k = 1; k < kBlockValues; ++k) {
      if (!Take(ac, code)) return false;
      if (code.value_bits() == 0 && code.run() != 15) return true;
      k += code.run();
      if (code.value_bits() == 0) continue;
      last = std::min<size_t>(k, kBlockValues - 1);
      block[last] = static_cast<int16_t>(Value(code.value_bits()));
    }
    return true;
  }

 private:
  uint64_t Ahead(unsigned count) const {
    uint64_t bits = 0;
    for (size_t i = at_; i < at_ + count; ++i) {
      const size_t byte = i / 8;
      const unsigned bit = byte < data_.size() ? data_[byte] >> (7 - i % 8) & 1U : 0;
      bits = bits << 1 | bit;
    }
    return bits;
  }
  bool Take(const HuffmanCodes& codes, HuffmanCode& code) {
    code = FindCode(codes, Ahead(16) << 48);
    at_ += code.length;
    return code.length <= 16;
  }
  int Value(unsigned size) {
    const auto bits = static_cast<uint32_t>(Ahead(size));
    at_ += size;
    return ExtendedValue(bits, size);
  }

  const Bytes& data_;
  size_t at_ = 0;
};

struct Outcome {
  std::vector<BlockValues> blocks;
  std::vector<size_t> last_places;
  std::string message;  // of the error

  bool operator==(const Outcome&) const = default;
};

constexpr const char* kEnded =
    "the JPEG is cut short or damaged: Corrupt JPEG data: premature end of data segment; "
    "damaged: accept decodes it";
constexpr const char* kBadCode =
    "the JPEG is cut short or damaged: Corrupt JPEG data: bad Huffman code; "
    "damaged: accept decodes it";

Outcome Expected(const Bytes& data, const HuffmanCodes& dc, const HuffmanCodes& ac, size_t count) {
  Oracle oracle(data);
  Outcome outcome;
  for (size_t i = 0; i < count && outcome.message.empty(); ++i) {
    BlockValues block{};
    size_t last = 0;
    const bool good = oracle.Read(dc, ac, block, last);
    if (oracle.is_past_end()) {
      outcome.message = kEnded;
    } else if (!good) {
      outcome.message = kBadCode;
    }
    outcome.blocks.push_back(block);
    outcome.last_places.push_back(last);
  }
  if (!outcome.message.empty()) outcome.blocks.clear();
  if (!outcome.message.empty()) outcome.last_places.clear();
  return outcome;
}

// lists: in how many lists of parts the blocks are read.
Outcome Read(const Bytes& data, const HuffmanCodes& dc_codes, const HuffmanCodes& ac_codes,
             size_t count, size_t lists) {
  const BlockTable dc(BlockTable::Use::kDc, dc_codes);
  const BlockTable ac(BlockTable::Use::kAc, ac_codes);
  // A place of its own for each place in zigzag order, so that none hides another.
  PlaceOrder order;
  for (size_t i = 0; i < order.size(); ++i) {
    order[i] = static_cast<uint8_t>(std::min(i, kBlockValues - 1));
  }
  const Bytes file = WithStuffing(data);
  ScanReader reader(file, 0);
  Outcome outcome;
  outcome.blocks.resize(count);
  std::array<int16_t, kBlockValues> behind{};
  try {
    for (size_t list = 0; list < lists; ++list) {
      const size_t begin = count * list / lists;
      const size_t end = count * (list + 1) / lists;
      std::vector<BlockPart> parts;
      for (size_t i = begin; i < end; ++i) {
        parts.push_back({&dc, outcome.blocks[i].data()});
        parts.push_back({&ac, outcome.blocks[i].data()});
      }
      parts.push_back({&StopTable(), behind.data()});
      ReadBlocks(reader, parts.data(), order);
      for (size_t i = 1; i < parts.size(); i += 2)
        outcome.last_places.push_back(parts[i].last_place);
    }
  } catch (const Error& error) {
    return {{}, {}, error.what()};
  }
  return outcome;
}

// The place of the last coefficient may be one behind it.
void ExpectSame(Outcome actual, const Outcome& expected) {
  ASSERT_EQ(actual.last_places.size(), expected.last_places.size());
  for (size_t i = 0; i < expected.last_places.size(); ++i) {
    ASSERT_GE(actual.last_places[i], expected.last_places[i]);
    ASSERT_LT(actual.last_places[i], kBlockValues);
  }
  actual.last_places = expected.last_places;
  ASSERT_EQ(actual.message, expected.message);
  ASSERT_EQ(actual.blocks, expected.blocks);
}

TEST(BlockReader, ReadsWhatTheBitsSayOneByOne) {
  std::mt19937 random(17);
  int good = 0;
  int ended = 0;
  for (int round = 0; round < 400; ++round) {
    const bool any = round % 2 == 0;
    const HuffmanCodes dc = any ? RandomCodes(12, random) : CodesOfAnyBits(true, random);
    const HuffmanCodes ac = any ? RandomCodes(256, random) : CodesOfAnyBits(false, random);
    const Bytes data = RandomData(round % 8 == 1 ? 40 : 20000, random);
    const Outcome expected = Expected(data, dc, ac, 60);
    for (const size_t lists : {1, 7, 60}) {
      SCOPED_TRACE(::testing::Message() << "round " << round << ", " << lists << " lists");
      ExpectSame(Read(data, dc, ac, 60, lists), expected);
      if (HasFatalFailure()) return;
    }
    good += expected.message.empty() ? 1 : 0;
    ended += expected.message == kEnded ? 1 : 0;
  }
  EXPECT_GT(good, 100);
  EXPECT_GT(ended, 20);
}

TEST(BlockReader, ReadsBlocksThatEndWithTheirLastPlace) {
  // 0 is the code of a value of one bit without zeros before it: with every other bit 0, all blocks
  // are full, and lookups see two values of which the second is the next block's.
  HuffmanCodes codes;
  codes.counts = {1, 1};
  codes.symbols = {1, 0};
  std::mt19937 random(2);
  Bytes data = RandomData(1000, random);
  for (uint8_t& byte : data) byte &= 0x55;
  const Outcome expected = Expected(data, codes, codes, 40);
  ExpectSame(Read(data, codes, codes, 40, 1), expected);
  EXPECT_EQ(expected.message, "");
  EXPECT_EQ(expected.last_places, std::vector<size_t>(40, 63));
}

TEST(BlockReader, FindsABadCodeAndTheEnd) {
  HuffmanCodes codes;
  codes.counts[1] = 3;
  codes.symbols = {1, 0, 2};
  const Bytes bad = {0x00, 0x55, 0xFF, 0xFF, 0xFF};
  EXPECT_EQ(Read(bad, codes, codes, 9, 1).message, kBadCode);
  const Bytes short_data = {0x55};
  EXPECT_EQ(Read(short_data, codes, codes, 9, 1).message, kEnded);
  EXPECT_EQ(Read({}, codes, codes, 1, 1).message, kEnded);
}

TEST(BlockTable, LeavesOutWhatIsNoPrefixCode) {
  HuffmanCodes codes;
  codes.counts.fill(200);
  const BlockTable table(BlockTable::Use::kAc, codes);
  EXPECT_EQ(table.Look(0).length & 1U, 1U);
  EXPECT_LE(table.search().Find(~uint64_t{0}).length, 17U);
}

}  // namespace
}  // namespace endcap
