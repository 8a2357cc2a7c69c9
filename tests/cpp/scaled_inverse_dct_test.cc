#include "decode/scaled_inverse_dct.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numbers>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "decode/huffman_block.h"
#include "endcap/implementation.h"

namespace endcap {
namespace {

template <int size>
void ExpectCosines() {
  for (int value = 0; value < (size + 1) / 2; ++value) {
    for (int frequency = 0; frequency < 8; ++frequency) {
      const double angle = (2 * value + 1) * frequency * std::numbers::pi / (2 * size);
      double expected = (1 << kDctFactorBits) * std::cos(angle);
      if (frequency > 0) expected *= std::numbers::sqrt2;
      if (frequency >= size) expected = 0;
      const int factor =
          kDctFactors<size>[static_cast<size_t>(value)][static_cast<size_t>(frequency)];
      // Sums of up to three factors that are rounded each.
      EXPECT_NEAR(factor, expected, 1.5) << size << ": " << value << ", " << frequency;
      EXPECT_LE(std::abs(factor), kMaxDctFactor);
    }
  }
}

TEST(ScaledInverseDct, HasCosinesForFactors) {
  ExpectCosines<3>();
  ExpectCosines<5>();
  ExpectCosines<6>();
  ExpectCosines<7>();
  ExpectCosines<10>();
  ExpectCosines<12>();
  ExpectCosines<14>();
}

// Rows of samples, and some more behind them, which a kernel must leave as they are.
struct Plane {
  static constexpr size_t kColumn = 5;
  static constexpr uint8_t kUntouched = 0xA5;

  Plane(int size, int blocks) : width(static_cast<size_t>(size * blocks)) {
    for (int y = 0; y < size; ++y) samples.emplace_back(kColumn + width + 16, kUntouched);
    for (std::vector<uint8_t>& row : samples) rows.push_back(row.data());
  }

  size_t width;
  std::vector<std::vector<uint8_t>> samples;
  std::vector<uint8_t*> rows;
};

struct Group {
  alignas(64) std::array<int16_t, 64 * kMaxBlocksPerGroup> coefficients{};
  alignas(64) std::array<int16_t, 64 * kMaxBlocksPerGroup> quantization{};
};

// Blocks whose coefficients reach to `last_place`, of a magnitude that `amplitude` steps make.
Group MakeGroup(std::mt19937& random, int blocks, int last_place, int amplitude, int step) {
  Group group;
  for (int block = 0; block < blocks; ++block) {
    for (int k = 0; k < 64; ++k) {
      const int place = kNaturalOrder[static_cast<size_t>(k)];
      const auto at = static_cast<size_t>((place / 8 * blocks + block) * 8 + place % 8);
      group.quantization[at] = static_cast<int16_t>(step);
      if (k > last_place) continue;
      group.coefficients[at] =
          static_cast<int16_t>(std::uniform_int_distribution(-amplitude, amplitude)(random));
    }
  }
  return group;
}

template <int size>
void ExpectEqualToWideIntegers(const InverseDctKernels& kernels, const std::string& target) {
  std::mt19937 random(size);
  // From flat blocks to what no image has; at about 725 columns begin to leave 16 bits.
  for (const auto& [amplitude, step] :
       {std::pair{1, 1}, {40, 16}, {700, 1}, {750, 1}, {1024, 2}, {32767, 1}, {32767, -32768}}) {
    for (const int last_place : {0, 1, 9, 10, 63}) {
      for (int run = 0; run < 20; ++run) {
        Group group = MakeGroup(random, kernels.blocks, last_place, amplitude, step);
        Plane expected(size, kernels.blocks);
        Plane actual(size, kernels.blocks);
        InverseDctInWideIntegers({size, kDctFactors<size>}, group.coefficients.data(),
                                 group.quantization.data(), kernels.blocks, expected.rows.data(),
                                 Plane::kColumn);
        kernels.For(size)(group.coefficients.data(), group.quantization.data(), last_place,
                          actual.rows.data(), Plane::kColumn);
        ASSERT_EQ(actual.samples, expected.samples)
            << target << ", " << size << ", up to " << amplitude << " * " << step << " at "
            << last_place;
        ASSERT_EQ(group.coefficients, Group().coefficients);
      }
    }
  }
}

TEST(ScaledInverseDct, OfEveryTargetIsTheOneInWideIntegers) {
  ASSERT_FALSE(SimdTargets().empty());
  for (const std::string_view target : SimdTargets()) {
    ForceSimdTarget(target);
    const InverseDctKernels kernels = FastestInverseDct();
    const std::string name(target);
    ExpectEqualToWideIntegers<3>(kernels, name);
    ExpectEqualToWideIntegers<5>(kernels, name);
    ExpectEqualToWideIntegers<6>(kernels, name);
    ExpectEqualToWideIntegers<7>(kernels, name);
    ExpectEqualToWideIntegers<10>(kernels, name);
    ExpectEqualToWideIntegers<12>(kernels, name);
    ExpectEqualToWideIntegers<14>(kernels, name);
  }
  ForceSimdTarget("");
}

}  // namespace
}  // namespace endcap
