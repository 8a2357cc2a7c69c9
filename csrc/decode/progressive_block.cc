#include "decode/progressive_block.h"

#include <bit>

#include "decode/huffman_block.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define ENDCAP_DEPOSIT __attribute__((target("bmi,bmi2,popcnt")))
#endif

namespace endcap {
namespace {

// The entry of a code whose value is not in the lookup table; the code is dropped. False: a bad
// code.
[[gnu::always_inline]] inline bool TakeCode(ScanBits& bits, const HuffmanTable& table,
                                            HuffmanEntry& entry) {
  if (entry.nothing()) entry = table.Search(bits.bits);
  bits.Drop(entry.length());
  return entry.length() <= HuffmanTable::kLongestCode;
}

// The number of blocks that a progressive scan's code with this run means: 2^run, and as many as
// the next bits say.
[[gnu::always_inline]] inline uint32_t TakeEobRun(ScanBits& bits, unsigned run) {
  const auto more = static_cast<uint32_t>(bits.bits >> 1 >> (63 - run));
  bits.Drop(run);
  return (1U << run) + more;
}

// From the last DC coefficient of a component to this one. False: a bad code.
[[gnu::always_inline]] inline bool TakeDcDifference(ScanBits& bits, const HuffmanTable& table,
                                                    int32_t& difference) {
  bits.Fill();
  HuffmanEntry entry = table.Look(bits.bits);
  if (entry.has_values()) {
    bits.Drop(entry.length());
    difference = entry.first_value();
  } else {
    if (!TakeCode(bits, table, entry)) return false;
    difference = TakeValue(bits, entry.value_bits());
  }
  return true;
}

// Reads the AC coefficients of a block behind the place `k`, up to `last`: put(place, value) for
// each, in order; the last may come twice. A run that a damaged file has too long goes beyond
// `last`. Where a code says that no more follow, end(its run) is called. False: a bad code.
template <typename Put, typename End>
[[gnu::always_inline]] inline bool TakeAc(ScanBits& bits, const HuffmanTable& table, size_t k,
                                          size_t last, Put put, End end) {
  // Takes an entry's values; where the first is the last of the block, the second is the next
  // one's.
  const auto take = [&](const HuffmanEntry& entry) {
    k += entry.first_step();
    put(k, entry.first_value());
    if (k >= last) {
      bits.Drop(entry.first_length());
      return;
    }
    k += entry.second_step();
    put(k, entry.second_value());
    bits.Drop(entry.length());
  };
  while (k < last) {
    bits.Fill();
    HuffmanEntry entry = table.Look(bits.bits);
    // Two of at most kHuffmanLookupBits leave enough of 56 bits for any other.
    if (entry.has_values()) {
      take(entry);
      if (k >= last) break;
      entry = table.Look(bits.bits);
      if (entry.has_values()) {
        take(entry);
        if (k >= last) break;
        entry = table.Look(bits.bits);
        if (entry.has_values()) {
          take(entry);
          continue;
        }
      }
    }
    if (!TakeCode(bits, table, entry)) return false;
    if (entry.value_bits() > 0) {
      k += entry.run() + 1;
      put(k, TakeValue(bits, entry.value_bits()));
    } else if (entry.run() == 15) {
      k += 16;
    } else {
      end(entry.run());
      break;
    }
  }
  return true;
}

constexpr uint64_t kFirstPlace = uint64_t{1} << 63;
// What ScanBits::Fill gives at least.
constexpr unsigned kMaxCorrections = 56;

// Places, and how many bits of the data they take.
struct Places {
  uint64_t places = 0;
  unsigned count = 0;
};

// What differs between CPUs.
struct Loops {
  // Of a set the place behind `run` others; `none` where it has too few.
  static size_t Behind(uint64_t set, unsigned run, size_t none) {
    for (; run > 0 && set != 0; --run) set &= ~(kFirstPlace >> std::countl_zero(set));
    return set == 0 ? none : static_cast<size_t>(std::countl_zero(set));
  }
  // Of the first places of a set, which are taken from it, those whose bit is 1.
  static Places TakeOnes(uint64_t bits, uint64_t& set) {
    Places ones;
    for (; set != 0 && ones.count < kMaxCorrections; ++ones.count) {
      const uint64_t place = kFirstPlace >> std::countl_zero(set);
      set &= ~place;
      ones.places |= static_cast<uint64_t>(static_cast<int64_t>(bits) >> 63) & place;
      bits <<= 1;
    }
    return ones;
  }
};

#ifdef ENDCAP_DEPOSIT
struct Deposits {
  ENDCAP_DEPOSIT static size_t Behind(uint64_t set, unsigned run, size_t none) {
    const auto count = static_cast<unsigned>(std::popcount(set));
    if (run >= count) return none;
    return static_cast<size_t>(std::countl_zero(_pdep_u64(uint64_t{1} << (count - 1 - run), set)));
  }
  ENDCAP_DEPOSIT static Places TakeOnes(uint64_t bits, uint64_t& set) {
    uint64_t taken = set;
    if (std::popcount(taken) > static_cast<int>(kMaxCorrections)) taken &= ~PlacesFrom(32);
    set &= ~taken;
    const auto count = static_cast<unsigned>(std::popcount(taken));
    return {_pdep_u64(bits >> (64 - count), taken), count};
  }
};
#endif

// Reads a bit for each of the coefficients at `places`. Returns those whose bit is 1.
template <typename Set>
[[gnu::always_inline]] inline uint64_t TakeCorrections(ScanBits& bits, uint64_t places) {
  uint64_t corrected = 0;
  while (places != 0) {
    bits.Fill();
    const Places ones = Set::TakeOnes(bits.bits, places);
    bits.Drop(ones.count);
    corrected |= ones.places;
  }
  return corrected;
}

// Makes the bit `bit` of the coefficients at `places` 1, unless a damaged file has set it before.
inline void Correct(uint64_t places, int bit, int16_t* coefficients) {
  for (; places != 0; places &= places - 1) {
    const auto from_last = static_cast<size_t>(std::countr_zero(places));
    int16_t& coefficient = coefficients[kNaturalOrder[kBlockValues - 1 - from_last]];
    const int value = coefficient;
    const int sign = value >> 15;  // -1 or 0
    const int one = bit & ~value;
    coefficient = static_cast<int16_t>(value + ((one ^ sign) - sign));  // away from 0
  }
}

template <typename Set>
[[gnu::always_inline]] inline bool DecodeBits(ScanBits& kept, const HuffmanTable& table,
                                              const SpectralBand& band, uint32_t& eob_run,
                                              const ProgressiveBlock& block) {
  const int bit = 1 << band.low;
  uint64_t nonzero = *block.nonzero;
  uint64_t ahead = PlacesFrom(band.first) & ~PlacesFrom(band.last + 1);
  // Applied once at the end of the block: a loop after each code would mispredict its exit.
  uint64_t corrected = 0;
  ScanBits bits = kept;  // in registers
  if (eob_run == 0) {
    while (ahead != 0) {
      bits.Fill();
      HuffmanEntry entry = table.Look(bits.bits);
      if (!TakeCode(bits, table, entry) || entry.value_bits() > 1) {
        kept = bits;  // whether the data had ended is asked
        return false;
      }
      const bool begins = entry.value_bits() == 1;
      if (!begins && entry.run() < 15) {
        eob_run = TakeEobRun(bits, entry.run());
        break;
      }
      const bool positive = static_cast<int64_t>(bits.bits) < 0;
      if (begins) bits.Drop(1);
      const size_t place = Set::Behind(ahead & ~nonzero, entry.run(), band.last + 1);
      corrected |= TakeCorrections<Set>(bits, ahead & nonzero & ~PlacesFrom(place));
      if (begins) {
        block.coefficients[kNaturalOrder[place]] = static_cast<int16_t>(positive ? bit : -bit);
        nonzero |= PlaceBit(place);
      }
      ahead &= PlacesFrom(place + 1);
    }
    *block.nonzero = nonzero;
  }
  if (eob_run > 0) {
    corrected |= TakeCorrections<Set>(bits, ahead & nonzero);
    --eob_run;
  }
  Correct(corrected, bit, block.coefficients);
  kept = bits;
  return true;
}

#ifdef ENDCAP_DEPOSIT
ENDCAP_DEPOSIT bool DecodeByDeposit(ScanBits& kept, const HuffmanTable& table,
                                    const SpectralBand& band, uint32_t& eob_run,
                                    const ProgressiveBlock& block) {
  return DecodeBits<Deposits>(kept, table, band, eob_run, block);
}
#endif

}  // namespace

bool DecodeAcBitsAnywhere(ScanBits& kept, const HuffmanTable& table, const SpectralBand& band,
                          uint32_t& eob_run, const ProgressiveBlock& block) {
  return DecodeBits<Loops>(kept, table, band, eob_run, block);
}

DecodeAcBits DecodeAcBitsByDeposit() noexcept {
#ifdef ENDCAP_DEPOSIT
  // AMD's first two generations of Zen do PDEP in microcode, bit by bit.
  if (__builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
      __builtin_cpu_supports("popcnt") && !__builtin_cpu_is("znver1") &&
      !__builtin_cpu_is("znver2")) {
    return DecodeByDeposit;
  }
#endif
  return nullptr;
}

bool DecodeFirstDc(ScanBits& bits, const HuffmanTable& table, unsigned low, int32_t& last_dc,
                   int16_t* coefficients) {
  int32_t difference = 0;
  if (!TakeDcDifference(bits, table, difference)) return false;
  if (__builtin_add_overflow(last_dc, difference, &last_dc)) return false;
  coefficients[0] = static_cast<int16_t>(static_cast<uint32_t>(last_dc) << low);
  return true;
}

void DecodeDcBit(ScanBits& bits, unsigned low, int16_t* coefficients) {
  bits.Fill();
  const auto one = static_cast<unsigned>(bits.bits >> 63);
  coefficients[0] = static_cast<int16_t>(coefficients[0] | static_cast<int>(one << low));
  bits.Drop(1);
}

bool DecodeFirstAc(ScanBits& kept, const HuffmanTable& table, const SpectralBand& band,
                   uint32_t& eob_run, const ProgressiveBlock& block) {
  if (eob_run > 0) {
    --eob_run;
    return true;
  }
  ScanBits bits = kept;  // in registers
  uint64_t nonzero = *block.nonzero;
  const auto put = [&](size_t k, int value) {
    const auto shifted = static_cast<int16_t>(static_cast<uint32_t>(value) << band.low);
    block.coefficients[kNaturalOrder[k]] = shifted;
    nonzero = shifted != 0 ? nonzero | PlaceBit(k) : nonzero & ~PlaceBit(k);
  };
  const auto end = [&](unsigned run) { eob_run = TakeEobRun(bits, run) - 1; };
  const bool good = TakeAc(bits, table, band.first - 1, band.last, put, end);
  *block.nonzero = nonzero;
  kept = bits;
  return good;
}

}  // namespace endcap
