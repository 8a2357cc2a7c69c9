#pragma once

#include <cstddef>
#include <cstdint>

#include "box_decode/cuda/head_batch.h"
#include "endcap/geometry.h"
#include "masks/masks.h"
#include "nms/cuda/rotated_launch.h"
#include "postprocess/map_extras.h"

namespace endcap {

// Of a detection family in DetectionImage::outputs, which has none of the family's own.
inline constexpr int32_t kStatusOutput = kExtraOutput;

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
  kTooManyDropped,       // on_nan kDrop; values: dropped rows, rows
  kMaskSide,             // values: image_w or image_h, and 0 or 1 for which
  kMaskLogit,            // element: detection; input: index; values: the sum, and its MaskPlace
};

// The result of one image, for the host to read.
struct DetectionRecord {
  DetectionFault fault;
  int32_t input;
  uint32_t element;
  int32_t num_detections;
  int32_t truncated;
  int32_t dropped;
  int32_t mask_height;  // heads with masks
  int32_t mask_width;
  double values[2];
};

// Where the RLE of one mask is in RunLengthMemory::text.
struct RunLengthText {
  uint64_t at;
  uint64_t bytes;
};

struct DetectionImage {
  void* outputs[6];       // device memory, in the order of PostprocessOutputs; null: skipped
  const float* geometry;  // device memory; null: `values`, if has_values
  float values[Geometry::kSize];
  int32_t has_values;
  int32_t status;              // of the stages before
  float* extra;                // keypoints or angles: device memory; null: skipped
  uint8_t* masks;              // heads with masks: device memory; null: skipped
  RunLengthText* run_lengths;  // [max_rows], of rows that are written; null: skipped
};

// The extra values of a head with keypoints, or with coefficients of masks, of which nothing but
// `count` and `values` is set. A count of 0 is for all other heads.
struct KeypointValues {
  KeypointRule rule;
  uint32_t count;   // keypoints, or coefficients
  uint32_t values;  // numbers for each
};

// Heads with angles: how boxes suppress each other, where that is not done in the network.
struct RotatedHeads {
  int32_t is_there;  // not 0: the head has angles
  int32_t le90;      // not 0: AngleRange::kLe90
  RotatedRule rule;
  RotatedScratchSize scratch;  // of each image
};

// Memory that blocks take as much of as they need, until it is used up: then nothing is
// written, and the requested size says how much is needed. An image of which more than
// kMaxRleBytes are known takes no more of the text.
struct RunLengthMemory {
  uint32_t* scratch;
  uint64_t scratch_words;
  char* text;
  uint64_t text_bytes;
  unsigned long long* words_asked;
  unsigned long long* bytes_asked;
  unsigned long long* bytes_of_image;  // [images], what their strings take, written or not
  RunLengthText* texts;                // [images][max_rows]
};

// Heads with masks: where the pixels of a mask lie. is_there of 0 is for all other heads.
struct MaskBatch {
  int32_t is_there;
  int32_t input;      // of the head: prototypes; without coefficients, a mask of each query
  int32_t of_source;  // the axes are the input's: an image's geometry makes its own of them
  MaskAxes axes;
  float box_units[2];               // from pixels of the model's input to those of the mask
  uint32_t row_bytes;               // of a packed mask
  int32_t* sizes[kMaxBatchImages];  // mask_size of each image: device memory; null: skipped
  RunLengthMemory runs;             // where an image has run_lengths
};

// A prototype's pixel as a number.
struct MaskPlace {
  uint32_t row;
  uint32_t column;

  static constexpr uint32_t kColumns = uint32_t{1} << 16;
  ENDCAP_HOST_DEVICE uint32_t number() const { return row * kColumns + column; }
  ENDCAP_HOST_DEVICE static MaskPlace Of(uint32_t number) {
    return {number / kColumns, number % kColumns};
  }
};

// Scratch of a kept box, for the candidates of later chunks.
inline constexpr size_t kKeptBytes = 32;

inline constexpr uint32_t kNoRows = ~uint32_t{0};

struct DetectionBatch {
  int32_t needs_nms;  // not 0: the family does
  int32_t class_agnostic;
  float iou_limit;  // GreatestFloatAtMost(iou_threshold)
  uint32_t max_candidates;
  uint32_t max_rows;       // detections, or top_k
  uint32_t kept_capacity;  // of each image
  void* kept;              // [images][kept_bytes]: kKeptBytes of each kept box, or RotatedScratch
  size_t kept_bytes;
  int32_t masks_of_source;  // heads with masks: the sides of the geometry's image count
  uint32_t* kept_anchors;   // [images][kept_capacity]; where there are keypoints or masks
  uint32_t* kept_rows;      // [images], rows that were written; kNoRows: the image has failed
  uint32_t extra_values;    // of each row of DetectionImage::extra
  KeypointValues keypoints;
  RotatedHeads rotated;
  DetectionRecord* records;  // [images], or null
  DetectionImage images[kMaxBatchImages];
};

// Up to kMaxBatchImages heads to output rows, by two kernels: the filter of the family, and one
// that takes each image's candidates to rows (of its own for rotated boxes); then the masks' two.
// The structs are the kernels' arguments; all pointers are device memory.
struct DetectionLaunch {
  HeadBatch heads;
  DetectionBatch detections;
  MaskBatch masks;
  const float* class_limits;  // in host memory, for heads.rule.class_limits; null where that is
};

// Enqueues the launch on `stream` (a cudaStream_t) and does not wait. Throws kCuda.
void LaunchDetection(const DetectionLaunch& launch, void* stream);

}  // namespace endcap
