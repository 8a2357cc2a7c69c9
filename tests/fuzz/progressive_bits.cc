// Blocks of a progressive scan that refines coefficients: by PDEP, which CPUs with a fast one take,
// against the loops of all others.

#include "agreement.h"
#include "decode/huffman_block.h"
#include "decode/progressive_block.h"

namespace endcap::fuzz {
namespace {

constexpr int kBlocks = 6;

using Block = std::array<int16_t, kBlockValues>;

// A prefix code, which need not be complete.
HuffmanTable PickTable(FuzzInput& input) {
  HuffmanCodes codes;
  int free_codes = 1;
  int count = 0;
  for (uint8_t& of_length : codes.counts) {
    free_codes = std::min(free_codes * 2, 64);
    of_length = static_cast<uint8_t>(input.Int(0, std::min(free_codes, 15)));
    free_codes -= of_length;
    count += of_length;
  }
  for (int i = 0; i < count; ++i) {
    // Runs with a value of one bit or none; others are damage.
    codes.symbols[static_cast<size_t>(i)] =
        static_cast<uint8_t>(input.Happens(4) ? input.Byte() : input.Byte() & 0xF1);
  }
  return HuffmanTable(HuffmanTable::Use::kBits, codes);
}

std::array<Block, kBlocks> PickBlocks(FuzzInput& input, unsigned low) {
  Noise noise(input.Word(2));
  const int one_in = input.Int(1, 20);
  std::array<Block, kBlocks> blocks{};
  for (Block& block : blocks) {
    for (int16_t& value : block) {
      if (noise.Below(one_in) == 0) value = static_cast<int16_t>((noise.Below(9) - 4) * (2 << low));
    }
  }
  return blocks;
}

Outcome Refine(DecodeAcBits decode, const HuffmanTable& table, const SpectralBand& band,
               std::array<Block, kBlocks> blocks, const std::vector<uint8_t>& data) {
  Outcome outcome;
  ScanBits bits{0, 0, data.data()};
  uint32_t eob_run = 0;
  for (Block& block : blocks) {
    uint64_t nonzero = 0;
    for (size_t place = 1; place < kBlockValues; ++place) {
      if (block[kNaturalOrder[place]] != 0) nonzero |= PlaceBit(place);
    }
    const bool good = decode(bits, table, band, eob_run, {block.data(), &nonzero});
    outcome.Add(int64_t{good});
    if (!good) break;  // the rest of the scan is not read
    outcome.Add(block.data(), block.size());
    outcome.Add(&nonzero, 1);
    outcome.Add(int64_t{eob_run});
    outcome.Add((bits.next - data.data()) * 8 - static_cast<int64_t>(bits.count));
  }
  return outcome;
}

}  // namespace
}  // namespace endcap::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace endcap;
  using namespace endcap::fuzz;
  const DecodeAcBits by_deposit = DecodeAcBitsByDeposit();
  if (by_deposit == nullptr) return 0;
  FuzzInput input(data, size);
  SpectralBand band;
  band.first = static_cast<size_t>(input.Int(1, 63));
  band.last = static_cast<size_t>(input.Int(static_cast<int>(band.first), 63));
  band.low = static_cast<unsigned>(input.Int(0, 13));
  const HuffmanTable table = PickTable(input);
  const auto blocks = PickBlocks(input, band.low);
  Noise noise(input.Word(2));
  // What is read for the blocks at most, of the input as far as it goes.
  std::vector<uint8_t> scan = input.Rest();
  const size_t taken = std::min(scan.size(), size_t{kBlocks} * ScanBytes::kBlockBytes);
  scan.resize(size_t{kBlocks} * ScanBytes::kBlockBytes);
  noise.Fill(std::span(scan).subspan(taken));
  RequireEqual(Refine(DecodeAcBitsAnywhere, table, band, blocks, scan),
               Refine(by_deposit, table, band, blocks, scan), "loops against PDEP");
  return 0;
}
