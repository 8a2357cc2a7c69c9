#pragma once

#include <cuda_runtime.h>

#include "box_decode/candidate_cuda.h"
#include "postprocess/detection_fault_cuda.h"
#include "postprocess/detection_launch.h"
#include "common/map_box.h"

// Output rows of one image, by the threads of its block.

namespace endcap {

template <typename T>
__device__ T* Output(const DetectionImage& image, int32_t position) {
  return static_cast<T*>(image.outputs[position]);
}

template <typename T>
__device__ void FillOutput(const DetectionImage& image, int32_t position, uint32_t first,
                           uint32_t end, T value) {
  T* to = Output<T>(image, position);
  if (to == nullptr) return;
  for (uint32_t i = first + threadIdx.x; i < end; i += blockDim.x) to[i] = value;
}

// Keypoints or angles of rows [first, rows), which hold nothing.
__device__ inline void FillExtra(const DetectionImage& image, uint32_t values, uint32_t first,
                                 uint32_t rows) {
  if (image.extra == nullptr) return;
  const uint64_t end = uint64_t{rows} * values;
  for (uint64_t i = uint64_t{first} * values + threadIdx.x; i < end; i += blockDim.x) {
    image.extra[i] = 0.0F;
  }
}

// Rows [first, rows) hold nothing.
__device__ inline void FillRows(const DetectionImage& image, HeadFamily family, uint32_t first,
                                uint32_t rows) {
  if (family == HeadFamily::kClassification) {
    FillOutput(image, kClassScoresOutput, first, rows, 0.0F);
    FillOutput(image, kClassIdsOutput, first, rows, -1);
    return;
  }
  FillOutput(image, kBoxesOutput, 4 * first, 4 * rows, 0.0F);
  FillOutput(image, kScoresOutput, first, rows, 0.0F);
  FillOutput(image, kClassesOutput, first, rows, 0);
  FillOutput(image, kIndicesOutput, first, rows, -1);
}

// By one thread.
__device__ inline void WriteCounts(const DetectionImage& image, HeadFamily family, uint32_t rows,
                                   int32_t status) {
  const bool classifies = family == HeadFamily::kClassification;
  auto* num = Output<int32_t>(image, kNumOutput);
  if (!classifies && num != nullptr) *num = static_cast<int32_t>(rows);
  auto* to =
      Output<int32_t>(image, classifies ? int32_t{kClassStatusOutput} : int32_t{kStatusOutput});
  if (to != nullptr) *to = status;
}

// No detection, no class.
__device__ inline void WriteBlank(const DetectionImage& image, const HeadRule& rule, uint32_t rows,
                                  int32_t status) {
  FillRows(image, rule.family, 0, rows);
  if (rule.family == HeadFamily::kClassification) {
    FillOutput(image, kProbabilitiesOutput, 0, static_cast<uint32_t>(rule.num_classes), 0.0F);
  }
  if (threadIdx.x == 0) WriteCounts(image, rule.family, 0, status);
}

// What every detection has beside its box. One row, by one thread.
__device__ inline void WriteScore(const DetectionImage& image, uint32_t row,
                                  const Candidate& candidate) {
  auto* scores = Output<float>(image, kScoresOutput);
  auto* classes = Output<int32_t>(image, kClassesOutput);
  auto* indices = Output<int32_t>(image, kIndicesOutput);
  if (scores != nullptr) scores[row] = candidate.score;
  if (classes != nullptr) classes[row] = candidate.class_id;
  if (indices != nullptr) indices[row] = candidate.index;
}

// One row, by one thread.
__device__ inline void WriteRow(const DetectionImage& image, uint32_t row,
                                const Candidate& candidate) {
  const float box[4] = {candidate.box.x1, candidate.box.y1, candidate.box.x2, candidate.box.y2};
  if (auto* boxes = Output<float>(image, kBoxesOutput); boxes != nullptr) {
    float mapped[4] = {box[0], box[1], box[2], box[3]};
    if (HasGeometry(image)) MapBox(ReadGeometry(image), box, mapped);
    for (uint32_t i = 0; i < 4; ++i) boxes[4 * row + i] = mapped[i];
  }
  WriteScore(image, row, candidate);
}

__device__ inline void WriteClassRow(const DetectionImage& image, const HeadRule& rule,
                                     const HeadImage& head, uint32_t row, uint64_t key) {
  const uint32_t class_id = KeyPosition(key);
  // The key does not tell -0 from 0.
  const bool is_raw = rule.activation == Activation::kNone;
  const float score = is_raw ? ReadValue(head, 0, class_id) : KeyScore(key);
  if (auto* scores = Output<float>(image, kClassScoresOutput); scores != nullptr)
    scores[row] = score;
  auto* ids = Output<int32_t>(image, kClassIdsOutput);
  if (ids != nullptr) ids[row] = static_cast<int32_t>(class_id);
}

}  // namespace endcap
