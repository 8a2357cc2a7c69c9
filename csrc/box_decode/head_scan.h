#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace endcap {

// The simd implementations' loops over whole heads. A sum of all values goes along in each: it is
// not finite where there is a NaN (and hardly ever otherwise), which costs less than comparing each
// value.
struct ScanResult {
  size_t passing = 0;
  bool may_hold_nan = false;  // false: there is none
};

// Elements that the arrays for results must have beyond the count.
inline constexpr size_t kScanRoom = 16;

bool MayHoldNan(std::span<const float> values);

// Which values are greater than `limit`, ascending, into passing [count + kScanRoom].
ScanResult ScanGreater(std::span<const float> values, float limit, uint32_t* passing);

// scores [classes][anchors]. Which anchors have a score greater than `limit`, ascending, into
// passing [anchors + kScanRoom]; for these best and best_class, of that size too, get the greatest
// score and its (lowest) class.
ScanResult ScanBest(const float* scores, size_t classes, size_t anchors, float limit,
                    uint32_t* passing, float* best, int32_t* best_class);

// rows [count][5 + classes], as yolov5 has them: box, objectness, class scores. Which rows can have
// a score greater than `limit`, ascending, into passing [count + kScanRoom].
struct ObjectnessLimits {
  // The score is objectness * class score; it is compared with this.
  float product;
  // Both raw numbers must be greater than this: what a sigmoid needs.
  bool is_sigmoid;
  float raw;
};
ScanResult ScanRows(const float* rows, size_t count, size_t classes, const ObjectnessLimits& limits,
                    uint32_t* passing);

}  // namespace endcap
