#include "decode/scaled_inverse_dct.h"

#include <algorithm>

namespace endcap {
namespace {

// One value of the transform along `values`, which are `stride` apart, without `bits` fractional
// bits.
template <int size, class Value>
int64_t Transformed(const Value* values, int stride, int index, int bits) {
  const bool mirrored = index >= (size + 1) / 2;
  const DctFactors& factors =
      kDctFactors<size>[static_cast<size_t>(mirrored ? size - 1 - index : index)];
  int64_t sum = int64_t{1} << (bits - 1);
  for (int frequency = 0; frequency < std::min(size, 8); ++frequency) {
    const int64_t product =
        int64_t{values[frequency * stride]} * factors[static_cast<size_t>(frequency)];
    sum += mirrored && frequency % 2 != 0 ? -product : product;
  }
  return sum >> bits;
}

}  // namespace

template <int size>
void InverseDctInWideIntegers(const int16_t* coefficients, const int16_t* quantization, int blocks,
                              uint8_t* const* rows, size_t column) {
  constexpr int kColumns = std::min(size, 8);
  constexpr int kFirstBits = kDctFactorBits - kDctFirstPassBits;
  constexpr int kSecondBits = kDctFactorBits + kDctFirstPassBits + 3;
  for (int block = 0; block < blocks; ++block) {
    std::array<int32_t, 64> dequantized;
    for (int row = 0; row < 8; ++row) {
      for (int x = 0; x < 8; ++x) {
        const int place = 8 * (row * blocks + block) + x;
        dequantized[static_cast<size_t>(8 * row + x)] =
            int32_t{coefficients[place]} * quantization[place];
      }
    }
    // The library keeps 32 bits between the passes.
    std::array<int32_t, size_t{size} * kColumns> first_pass;
    for (int x = 0; x < kColumns; ++x) {
      for (int y = 0; y < size; ++y) {
        first_pass[static_cast<size_t>(y * kColumns + x)] =
            static_cast<int32_t>(Transformed<size>(dequantized.data() + x, 8, y, kFirstBits));
      }
    }
    for (int y = 0; y < size; ++y) {
      uint8_t* samples = rows[y] + column + static_cast<size_t>(block) * size;
      for (int x = 0; x < size; ++x) {
        samples[x] = WrappedSample(static_cast<uint32_t>(
            Transformed<size>(first_pass.data() + y * kColumns, 1, x, kSecondBits)));
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
