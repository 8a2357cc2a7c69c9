// What NmsRotated asks of the heap once it has had a call of that size: nothing. This program
// counts every operator new.

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "allocation_counter.h"
#include "endcap/implementation.h"
#include "endcap/nms.h"

namespace endcap {
namespace {

using testing::allocations;

TEST(RotatedNmsAllocations, ASteadySimdCallHasNone) {
  if (SimdTargets().empty()) GTEST_SKIP() << "this CPU has no SIMD target";
  std::mt19937 random(1);
  std::uniform_real_distribution<float> place(0.0F, 500.0F);
  std::uniform_real_distribution<float> side(5.0F, 80.0F);
  std::vector<float> boxes;
  std::vector<float> scores;
  std::vector<int32_t> class_ids;
  for (int i = 0; i < 2000; ++i) {
    boxes.insert(boxes.end(), {place(random), place(random), side(random), side(random), 1.0F});
    scores.push_back(place(random));
    class_ids.push_back(i % 15);
  }
  for (const RotatedNms method :
       {RotatedNms::kPolygon, RotatedNms::kProbiou, RotatedNms::kProbiouFast}) {
    std::vector<int64_t> kept;
    NmsRotated(boxes, scores, class_ids, {0.4, -1, method}, kept);
    const int before = allocations;
    NmsRotated(boxes, scores, class_ids, {0.4, -1, method}, kept);
    EXPECT_EQ(allocations - before, 0) << RotatedNmsNames()[static_cast<size_t>(method)];
    EXPECT_GT(kept.size(), 100U);
  }
}

}  // namespace
}  // namespace endcap
