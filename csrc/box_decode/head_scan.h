#pragma once

#include <cstddef>
#include <cstdint>

#include "box_decode/head_input.h"

namespace endcap {

// The simd implementations' loops over whole heads. Most blocks of a head hold no number that
// matters: these are read once, by a test that also finds numbers that are not finite.
struct ScanResult {
  size_t passing = 0;
  bool may_hold_nan = false;  // false: there is none
};

// Elements that the arrays for results must have beyond the count.
inline constexpr size_t kScanRoom = 16;

bool MayHoldNan(const HeadValues& values);

// Which values are greater than `limit`, ascending, into passing [count + kScanRoom].
ScanResult ScanGreater(const HeadValues& values, float limit, uint32_t* passing);

// Arrays of [anchors + kScanRoom]: the anchors that have a score greater than a limit, ascending,
// and for these the greatest score and its (lowest) class.
struct BestScores {
  uint32_t* passing;
  float* best;
  int32_t* best_class;
};

// scores [classes][anchors].
ScanResult ScanBest(const HeadValues& scores, size_t classes, size_t anchors, float limit,
                    const BestScores& found);

// rows [count][length], as yolov5 has them: box, objectness, class scores. Which rows can have
// a score greater than `limit`, ascending, into passing [count + kScanRoom]. An infinite number may
// count as a NaN.
struct ObjectnessLimits {
  // The score is objectness * class score; it is compared with this.
  float product;
  // Both raw numbers must be greater than this: what a sigmoid needs.
  bool is_sigmoid;
  float raw;
};
ScanResult ScanRows(const HeadValues& rows, size_t length, const ObjectnessLimits& limits,
                    uint32_t* passing);

}  // namespace endcap
