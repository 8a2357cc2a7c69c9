#include "decode/scaled_inverse_dct.h"

#include <array>

namespace endcap {
namespace {

// One value of the transform along `values`, which are `stride` apart, without `bits` fractional
// bits.
int64_t Transformed(const ScaledDct& dct, const int32_t* values, size_t stride, size_t index,
                    int bits) {
  const bool mirrored = index >= dct.factors.size();
  const DctFactors& factors = dct.factors[mirrored ? dct.size - 1 - index : index];
  int64_t sum = int64_t{1} << (bits - 1);
  for (size_t frequency = 0; frequency < dct.frequencies(); ++frequency) {
    const int64_t product = int64_t{values[frequency * stride]} * factors[frequency];
    sum += mirrored && frequency % 2 != 0 ? -product : product;
  }
  return sum >> bits;
}

}  // namespace

void InverseDctInWideIntegers(const ScaledDct& dct, const int16_t* coefficients,
                              const int16_t* quantization, int blocks, SampleBlock to) {
  constexpr int kFirstBits = kDctFactorBits - kDctFirstPassBits;
  constexpr int kSecondBits = kDctFactorBits + kDctFirstPassBits + 3;
  const auto count = static_cast<size_t>(blocks);
  for (size_t block = 0; block < count; ++block) {
    std::array<int32_t, 64> dequantized;
    for (size_t place = 0; place < 64; ++place) {
      const size_t at = 8 * (place / 8 * count + block) + place % 8;
      dequantized[place] = int32_t{coefficients[at]} * quantization[at];
    }
    // Rows of eight. The library keeps 32 bits between the passes.
    std::array<int32_t, size_t{8} * kMaxBlockSize> first_pass;
    for (size_t x = 0; x < dct.frequencies(); ++x) {
      for (size_t y = 0; y < dct.size; ++y) {
        first_pass[8 * y + x] =
            static_cast<int32_t>(Transformed(dct, &dequantized[x], 8, y, kFirstBits));
      }
    }
    for (size_t y = 0; y < dct.size; ++y) {
      uint8_t* samples = to.Row(y) + block * dct.size;
      for (size_t x = 0; x < dct.size; ++x) {
        const int64_t value = Transformed(dct, &first_pass[8 * y], 1, x, kSecondBits);
        samples[x] = WrappedSample(static_cast<uint32_t>(value));
      }
    }
  }
}

}  // namespace endcap
