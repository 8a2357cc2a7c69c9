#include "decode/scaled_inverse_dct.h"

#include <algorithm>

namespace endcap {
namespace {

// One value of the transform along `values`, which are `stride` apart, without `bits` fractional
// bits.
template <size_t size>
int64_t Transformed(const int32_t* values, size_t stride, size_t index, int bits) {
  const bool mirrored = index >= (size + 1) / 2;
  const DctFactors& factors = kDctFactors<int{size}>[mirrored ? size - 1 - index : index];
  int64_t sum = int64_t{1} << (bits - 1);
  for (size_t frequency = 0; frequency < std::min<size_t>(size, 8); ++frequency) {
    const int64_t product = int64_t{values[frequency * stride]} * factors[frequency];
    sum += mirrored && frequency % 2 != 0 ? -product : product;
  }
  return sum >> bits;
}

}  // namespace

template <int size>
void InverseDctInWideIntegers(const int16_t* coefficients, const int16_t* quantization, int blocks,
                              uint8_t* const* rows, size_t column) {
  constexpr size_t kSize = size;
  constexpr size_t kColumns = std::min<size_t>(kSize, 8);
  constexpr int kFirstBits = kDctFactorBits - kDctFirstPassBits;
  constexpr int kSecondBits = kDctFactorBits + kDctFirstPassBits + 3;
  const auto count = static_cast<size_t>(blocks);
  for (size_t block = 0; block < count; ++block) {
    std::array<int32_t, 64> dequantized;
    for (size_t place = 0; place < 64; ++place) {
      const size_t at = 8 * (place / 8 * count + block) + place % 8;
      dequantized[place] = int32_t{coefficients[at]} * quantization[at];
    }
    // The library keeps 32 bits between the passes.
    std::array<int32_t, kSize * kColumns> first_pass;
    for (size_t x = 0; x < kColumns; ++x) {
      for (size_t y = 0; y < kSize; ++y) {
        first_pass[y * kColumns + x] =
            static_cast<int32_t>(Transformed<kSize>(&dequantized[x], 8, y, kFirstBits));
      }
    }
    for (size_t y = 0; y < kSize; ++y) {
      uint8_t* samples = rows[y] + column + block * kSize;
      for (size_t x = 0; x < kSize; ++x) {
        const int64_t value = Transformed<kSize>(&first_pass[y * kColumns], 1, x, kSecondBits);
        samples[x] = WrappedSample(static_cast<uint32_t>(value));
      }
    }
  }
}

template void InverseDctInWideIntegers<3>(const int16_t*, const int16_t*, int, uint8_t* const*,
                                          size_t);
template void InverseDctInWideIntegers<5>(const int16_t*, const int16_t*, int, uint8_t* const*,
                                          size_t);
template void InverseDctInWideIntegers<6>(const int16_t*, const int16_t*, int, uint8_t* const*,
                                          size_t);
template void InverseDctInWideIntegers<7>(const int16_t*, const int16_t*, int, uint8_t* const*,
                                          size_t);
template void InverseDctInWideIntegers<10>(const int16_t*, const int16_t*, int, uint8_t* const*,
                                           size_t);
template void InverseDctInWideIntegers<12>(const int16_t*, const int16_t*, int, uint8_t* const*,
                                           size_t);
template void InverseDctInWideIntegers<14>(const int16_t*, const int16_t*, int, uint8_t* const*,
                                           size_t);

}  // namespace endcap
