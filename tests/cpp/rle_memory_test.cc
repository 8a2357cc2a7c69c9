#include "postprocess/cuda/rle_memory.h"

#include <gtest/gtest.h>

#include "endcap/masks.h"
#include "error_matchers.h"
#include "masks/masks.h"

namespace endcap {
namespace {

TEST(RleCapacities, GrowWithWhatImagesHaveNeeded) {
  RleCapacities rooms;
  EXPECT_GE(rooms.Together(), 64U);
  const RleCapacity guess = rooms.First(3);
  EXPECT_EQ(guess.words, 3 * rooms.First(1).words);
  rooms.Keep({10 * guess.words, guess.bytes}, 2);
  EXPECT_EQ(rooms.First(1).words, 5 * guess.words);
  EXPECT_EQ(rooms.First(3).bytes, guess.bytes * 3 / 2);
  rooms.Keep({1, 1}, 2);  // less is no reason to forget
  EXPECT_EQ(rooms.First(1).words, 5 * guess.words);
}

TEST(RleCapacities, NeverBeginBeyondBounds) {
  RleCapacities rooms;
  rooms.Keep({size_t{1} << 40, size_t{1} << 40}, 1);
  EXPECT_TRUE(rooms.First(1).IsSmall());
  EXPECT_EQ(rooms.Together(), 1);
  EXPECT_TRUE(rooms.First(64).IsSmall());
  const RleCapacity most = rooms.First(64);
  EXPECT_FALSE((RleCapacity{most.words + 1, most.bytes}.IsSmall()));
  EXPECT_FALSE((RleCapacity{most.words, most.bytes + 1}.IsSmall()));
}

TEST(RleBytes, AreLimitedForEachImage) {
  EXPECT_NO_THROW(CheckRleBytes(kMaxRleBytes, 9, 640, 480));
  EXPECT_TRUE(
      testing::Throws(ErrorCode::kImageLimit,
                      "the RLEs of 9 masks of 640x480 pixels take more than 268435456 bytes",
                      [] { CheckRleBytes(kMaxRleBytes + 1, 9, 640, 480); }));
}

}  // namespace
}  // namespace endcap
