// What NmsRotated asks of the heap once it has had a call of that size: nothing. This program
// counts every operator new.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <random>
#include <vector>

#include "endcap/implementation.h"
#include "endcap/nms.h"

namespace {

std::atomic<int> allocations{0};

void* Allocate(size_t size, size_t alignment) {
  ++allocations;
  const size_t rounded = (size + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t size) { return Allocate(size, alignof(std::max_align_t)); }
void* operator new(size_t size, std::align_val_t alignment) {
  return Allocate(size, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

namespace endcap {
namespace {

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
