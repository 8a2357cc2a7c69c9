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
  bits.Drop(entry.length);
  return entry.length <= HuffmanTable::kLongestCode;
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
    bits.Drop(entry.length);
    difference = entry.first_value;
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
  const auto take = [&](const HuffmanEntry& entry) __attribute__((always_inline)) {
    k += entry.first_step;
    put(k, entry.first_value);
    if (k >= last) {
      bits.Drop(entry.first_length);
      return;
    }
    k += entry.second_step;
    put(k, entry.second_value);
    bits.Drop(entry.length);
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

// What ScanBits::Fill gives at least.
constexpr unsigned kMaxCorrections = 56;
// What is left of that behind a code and its sign.
constexpr unsigned kCorrectionsBehindCode = kMaxCorrections - HuffmanTable::kLongestCode - 1;

// What differs between CPUs. Sets of places are as in PlacesFrom; a set of one place is a bit.
struct Loops {
  static unsigned Count(uint64_t set) { return static_cast<unsigned>(std::popcount(set)); }
  // The place after the first `run` of a set that has more.
  static uint64_t Behind(uint64_t set, unsigned run, unsigned /*count*/) {
    for (; run > 0; --run) set &= ~std::bit_floor(set);
    return std::bit_floor(set);
  }
  // Of a set of `count` places those whose bit is 1.
  static uint64_t TakeOnes(uint64_t bits, uint64_t set, unsigned /*count*/) {
    uint64_t ones = 0;
    for (; set != 0; bits <<= 1) {
      const uint64_t place = std::bit_floor(set);
      set &= ~place;
      ones |= static_cast<uint64_t>(static_cast<int64_t>(bits) >> 63) & place;
    }
    return ones;
  }
};

#ifdef ENDCAP_DEPOSIT
struct Deposits {
  ENDCAP_DEPOSIT static unsigned Count(uint64_t set) {
    return static_cast<unsigned>(std::popcount(set));
  }
  ENDCAP_DEPOSIT static uint64_t Behind(uint64_t set, unsigned run, unsigned count) {
    return _pdep_u64(uint64_t{1} << (count - 1 - run), set);
  }
  ENDCAP_DEPOSIT static uint64_t TakeOnes(uint64_t bits, uint64_t set, unsigned count) {
    return _pdep_u64(bits >> 1 >> (63 - count), set);
  }
};
#endif

// Reads a bit for each of the coefficients at `places`; `at_hand`: of the bits are there. Returns
// those whose bit is 1.
template <typename Set>
[[gnu::always_inline]] inline uint64_t TakeCorrections(ScanBits& bits, uint64_t places,
                                                       unsigned at_hand) {
  unsigned count = Set::Count(places);
  uint64_t corrected = 0;
  if (count > at_hand) [[unlikely]] {
    bits.Fill();
    if (count > kMaxCorrections) {
      const uint64_t first = places & ~PlacesFrom(32);
      const unsigned first_count = Set::Count(first);
      corrected = Set::TakeOnes(bits.bits, first, first_count);
      bits.Drop(first_count);
      bits.Fill();
      places &= ~first;
      count -= first_count;
    }
  }
  corrected |= Set::TakeOnes(bits.bits, places, count);
  bits.Drop(count);
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

constexpr unsigned Magnitude(int value) {
  return static_cast<unsigned>(value < 0 ? -value : value);
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
  unsigned at_hand = 0;
  ScanBits bits = kept;  // in registers
  if (eob_run == 0) {
    while (ahead != 0) {
      bits.Fill();
      at_hand = kCorrectionsBehindCode;
      HuffmanEntry entry = table.Look(bits.bits);
      unsigned run = 15;
      int value = 0;
      if (entry.has_values()) {
        run = entry.first_step - 1U;
        value = entry.first_value;
        if (value != 1 && value != -1) [[unlikely]] {
          bits.Drop(entry.length - static_cast<unsigned>(std::bit_width(Magnitude(value))));
          kept = bits;  // whether the data had ended is asked
          return false;
        }
        bits.Drop(entry.length);
      } else {
        if (!TakeCode(bits, table, entry) || entry.value_bits() > 1) {
          kept = bits;
          return false;
        }
        run = entry.run();
        if (entry.value_bits() == 1) {
          value = TakeValue(bits, 1);
        } else if (run < 15) {
          eob_run = TakeEobRun(bits, run);
          at_hand = 0;
          break;
        }
      }
      const uint64_t zero = ahead & ~nonzero;
      const unsigned zeros = Set::Count(zero);
      if (run >= zeros) [[unlikely]] {  // of a damaged file, or a run of 16 that ends the band
        corrected |= TakeCorrections<Set>(bits, ahead & nonzero, at_hand);
        if (value != 0) {
          const size_t place = std::min<size_t>(band.last + 1, kBlockValues - 1);
          block.coefficients[kNaturalOrder[place]] = static_cast<int16_t>(value * bit);
          nonzero |= PlaceBit(place);
        }
        ahead = 0;
        break;
      }
      const uint64_t place = Set::Behind(zero, run, zeros);
      // Behind the last coefficient of earlier scans the next code does not wait for the place.
      const uint64_t old = ahead & nonzero;
      if (old != 0) {
        const uint64_t before = uint64_t{0} - (place << 1);
        corrected |= TakeCorrections<Set>(bits, old & before, at_hand);
      }
      if (value != 0) {
        const auto index = static_cast<size_t>(std::countl_zero(place));
        block.coefficients[kNaturalOrder[index]] = static_cast<int16_t>(value * bit);
        nonzero |= place;
      }
      ahead &= place - 1;
    }
    *block.nonzero = nonzero;
  }
  if (eob_run > 0) {
    corrected |= TakeCorrections<Set>(bits, ahead & nonzero, at_hand);
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
                   int16_t* dc) {
  int32_t difference = 0;
  if (!TakeDcDifference(bits, table, difference)) return false;
  if (__builtin_add_overflow(last_dc, difference, &last_dc)) return false;
  *dc = static_cast<int16_t>(static_cast<uint32_t>(last_dc) << low);
  return true;
}

void DecodeDcBit(ScanBits& bits, unsigned low, int16_t* dc) {
  bits.Fill();
  const auto one = static_cast<unsigned>(bits.bits >> 63);
  *dc = static_cast<int16_t>(*dc | static_cast<int>(one << low));
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
