#pragma once

#include <cstddef>
#include <cstdint>

#include "box_decode/head_batch_cuda.h"
#include "endcap/geometry.h"
#include "nms/rotated_rule.h"
#include "postprocess/keypoint.h"

namespace endcap {

// Positions in PostprocessOutputs; `status` is the last of either.
enum DetectionOutput : int32_t {
  kNumOutput,
  kBoxesOutput,
  kScoresOutput,
  kClassesOutput,
  kIndicesOutput,
  kStatusOutput
};
enum ClassificationOutput : int32_t {
  kClassScoresOutput,
  kClassIdsOutput,
  kProbabilitiesOutput,
  kClassStatusOutput
};

// What went wrong with an image, in the order in which it is looked for.
enum class DetectionFault : int32_t {
  kNone,
  kGeometryNotFinite,    // element
  kGeometryScale,        // values: scale_x, scale_y
  kGeometryImage,        // values: image_w, image_h
  kNegativeCount,        // efficient_nms; values[0]: num_detections
  kNan,                  // input, element
  kCountBeyondRows,      // efficient_nms; values: num_detections, rows
  kScoreNan,             // yolov5; element: anchor
  kUnknownClass,         // element: row; values[0]: class
  kBoxNotFinite,         // element: index
  kScoreNotFinite,       // element: index
  kHighestNotFinite,     // softmax; values[0]: the greatest logit
  kRowHighestNotFinite,  // softmax of a row; element: row; values[0]: its greatest score
  kClassScoreNotFinite,  // element: class; values[0]: score
  kExtraNotFinite,       // element: anchor; values: the number, and the head's row that it is in
};

// What became of one image, for the host to read.
struct DetectionRecord {
  DetectionFault fault;
  int32_t input;
  uint32_t element;
  int32_t num_detections;
  int32_t truncated;
  double values[2];
};

struct DetectionImage {
  void* outputs[6];       // device memory, in the order of PostprocessOutputs; null: skipped
  const float* geometry;  // device memory; null: `values`, where has_values says so
  float values[Geometry::kSize];
  int32_t has_values;
  int32_t status;  // of the stages before
  float* extra;    // keypoints or angles: device memory; null: skipped
};

// yolov8_pose: what is below the scores of a head. A count of 0 is for all other families.
struct KeypointColumns {
  KeypointRule rule;
  uint32_t count;      // keypoints
  uint32_t values;     // numbers for each
  uint32_t first_row;  // of the head
};

// yolov8_obb: how boxes suppress, and where the head has their angles. A row of 0 is for all other
// families.
struct RotatedHeads {
  RotatedRule rule;
  RotatedScratchSize scratch;  // of each image
  uint32_t angle_row;
};

// Scratch of a kept box, for the candidates of later chunks.
inline constexpr size_t kKeptBytes = 32;

struct DetectionBatch {
  int32_t suppresses;  // the family needs NMS
  int32_t class_agnostic;
  float iou_limit;  // FloatBelow(iou_threshold)
  uint32_t max_candidates;
  uint32_t max_rows;       // detections, or top_k
  uint32_t kept_capacity;  // of each image
  void* kept;              // [images][kept_bytes]: kKeptBytes of each kept box, or RotatedScratch
  size_t kept_bytes;
  uint32_t* kept_anchors;  // [images][kept_capacity]; where there are keypoints
  uint32_t extra_values;   // of each row of DetectionImage::extra
  KeypointColumns keypoints;
  RotatedHeads rotated;
  DetectionRecord* records;  // [images], or null
  DetectionImage images[kMaxBatchImages];
};

// Up to kMaxBatchImages heads to output rows, by two kernels: the filter of the family, and one
// that takes each image's candidates to rows (of its own for rotated boxes). Both structs are the
// kernels' arguments; all pointers are device memory.
struct DetectionLaunch {
  HeadBatch heads;
  DetectionBatch detections;
};

}  // namespace endcap
