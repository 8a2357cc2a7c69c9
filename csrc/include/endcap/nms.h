#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace endcap {

// Rules of all functions for suppression in this header, for axis-aligned and rotated boxes, on CPU
// and GPU:
//
// - Ties: of boxes with equal scores the one with the lower index comes first, both in the order of
//   suppression and in the result (-0 equals 0). The definition is the stable sort of nms/nms.cc;
//   vector code and kernels sort the keys of common/score_order.h (ScoreKey). Tests:
//   tests/python/core/test_nms.py and test_nms_rotated.py; on a GPU
//   tests/gpu/test_nms_cuda.py, where nms/cuda/key_sort.cu sorts by the score's half of the key and
//   relies on a stable sort. Candidates of a head are in this order, too.
// - Threshold: a box is suppressed if its IoU is greater than the threshold; equal is kept. IoU is
//   float32, compared as double, as torchvision does: 3/5 in float32 is greater than 0.6. A NaN IoU
//   (two empty boxes) does not suppress. Tests, for each implementation: the same files.
// - Classes: boxes of different classes never suppress each other.
// - Limits: at most 2^31 - 1 boxes.
//
// The result does not depend on implementation, time or threads.

struct NmsOptions {
  double iou_threshold = 0.7;   // 0 to 1
  int64_t max_detections = -1;  // stop after this many kept boxes; -1: no limit
};

// Exact greedy non-maximum suppression of one image.
//   boxes_xyxy [N][4] float32, any unit; scores [N] float32; class_ids [N] int32 or empty (one
//   class).
// Returns the indices of the kept boxes, best score first. IoU is computed without a coordinate
// offset. Throws kInvalidArgument when lengths differ, iou_threshold is outside [0, 1], a score is
// NaN, or there are 2^31 boxes or more. Thread-safe.
std::vector<int64_t> Nms(std::span<const float> boxes_xyxy, std::span<const float> scores,
                         std::span<const int32_t> class_ids, const NmsOptions& options);

// The same, into a vector of the caller, which is replaced. The simd implementation allocates
// nothing after a call of that size by the same thread with the same vector.
void Nms(std::span<const float> boxes_xyxy, std::span<const float> scores,
         std::span<const int32_t> class_ids, const NmsOptions& options, std::vector<int64_t>& kept);

// The same on a GPU, all pointers device memory: boxes_xyxy float32 [count][4], scores float32
// [count], class_ids int32 [count] or null. Writes the kept indices to `kept` (int64 [count]) and
// their number to `kept_count` (int64 [1]), asynchronously on `stream` (a cudaStream_t); a NaN
// score makes kept_count -1. Throws kInvalidArgument, kCuda, kOutOfMemory. Thread-safe.
void NmsCuda(const float* boxes_xyxy, const float* scores, const int32_t* class_ids, int64_t count,
             const NmsOptions& options, int device_id, void* stream, int64_t* kept,
             int64_t* kept_count);

// How rotated boxes are compared and suppressed.
enum class RotatedNms : int {
  kPolygon,      // "polygon": greedy, by the exact IoU of the rectangles
  kProbiou,      // "probiou": greedy, by the probabilistic IoU of arXiv 2106.06072, 1 minus the
                 // Hellinger distance of the boxes as normal distributions, with the constants of
                 // ultralytics' batch_probiou
  kProbiouFast,  // "probiou_fast": by the same IoU, but not greedy: a box is suppressed by any
                 // better box of its class, even by one that is suppressed itself ("fast NMS" of
                 // arXiv 1904.02689), as in ultralytics
};

// The names above, by number.
std::span<const std::string_view> RotatedNmsNames() noexcept;

// The method of a name; throws kInvalidArgument for any other name.
RotatedNms ParseRotatedNms(std::string_view name);

struct RotatedNmsOptions {
  double iou_threshold = 0.7;   // 0 to 1
  int64_t max_detections = -1;  // stop after this many kept boxes; -1: no limit
  RotatedNms method = RotatedNms::kPolygon;
};

// Non-maximum suppression of one image's rotated boxes.
//   boxes_xywhr [N][5] float32: centre x, centre y, width, height in any unit (for the
//   probabilistic IoU pixels: its constants are absolute) and the angle in radians, any value, from
//   the x axis to the side that the width measures, towards the y axis (clockwise on the screen, as
//   y points down); scores [N] float32; class_ids [N] int32 or empty (one class).
// Replaces `kept` by the indices of the kept boxes, best score first. IoUs are those of RotatedIou.
// Throws kInvalidArgument when lengths differ, iou_threshold is outside [0, 1], a score is NaN, or
// there are 2^31 boxes or more. Thread-safe. The simd implementation allocates nothing after a call
// of that size by the same thread with the same vector.
void NmsRotated(std::span<const float> boxes_xywhr, std::span<const float> scores,
                std::span<const int32_t> class_ids, const RotatedNmsOptions& options,
                std::vector<int64_t>& kept);

// The same, as a new vector.
std::vector<int64_t> NmsRotated(std::span<const float> boxes_xywhr, std::span<const float> scores,
                                std::span<const int32_t> class_ids,
                                const RotatedNmsOptions& options);

// The same on a GPU, all pointers device memory: boxes_xywhr float32 [count][5], scores float32
// [count], class_ids int32 [count] or null. Writes the kept indices to `kept` (int64 [count]) and
// their number to `kept_count` (int64 [1]), asynchronously on `stream` (a cudaStream_t); a NaN
// score makes kept_count -1. Throws kInvalidArgument, kCuda, kOutOfMemory. Thread-safe.
void NmsRotatedCuda(const float* boxes_xywhr, const float* scores, const int32_t* class_ids,
                    int64_t count, const RotatedNmsOptions& options, int device_id, void* stream,
                    int64_t* kept, int64_t* kept_count);

// The IoU of every box of `a` [N][5] with every box of `b` [M][5], boxes as above, into `iou`
// [N][M] float32. Symmetric in a and b.
//
// kPolygon: computed in float64 in the frame of one box, so that large coordinates lose no
// precision, and rounded to float32, which is its only error (3e-8). A box without a positive width
// and height has IoU 0 with a box that has them; NaN for two such boxes, and for a box that is not
// finite.
//
// kProbiou, kProbiouFast: in float32, in the order of operations of ultralytics. Only the squares
// of width and height matter; two boxes without an area at the same centre have IoU 1. Boxes with
// an aspect ratio of a thousand or more have no significant digits left, and the IoU may be NaN.
//
// Throws kInvalidArgument when the lengths do not fit. Thread-safe.
void RotatedIou(std::span<const float> a, std::span<const float> b, RotatedNms method,
                std::span<float> iou);

}  // namespace endcap
