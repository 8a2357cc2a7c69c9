#pragma once

#include <cuda_runtime.h>

#include "box_decode/cuda/candidate.cuh"
#include "common/map_box.h"
#include "nms/cuda/suppression.cuh"
#include "postprocess/cuda/detection_faults.cuh"
#include "postprocess/cuda/detection_launch.h"

// Output rows of one image, by the threads of its block.

namespace endcap {

template <typename T>
__device__ T* Output(const DetectionImage& image, int32_t position) {
  return static_cast<T*>(image.outputs[position]);
}

// Element `i` of an output, unless that is skipped. By one thread.
template <typename T>
__device__ void WriteOutput(const DetectionImage& image, int32_t position, uint32_t i, T value) {
  if (auto* to = Output<T>(image, position); to != nullptr) to[i] = value;
}

template <typename T>
__device__ void Fill(T* to, uint64_t first, uint64_t end, T value) {
  if (to == nullptr) return;
  for (uint64_t i = first + threadIdx.x; i < end; i += blockDim.x) to[i] = value;
}

template <typename T>
__device__ void FillOutput(const DetectionImage& image, int32_t position, uint32_t first,
                           uint32_t end, T value) {
  Fill(Output<T>(image, position), first, end, value);
}

// Keypoints or angles of rows [first, rows), which hold nothing.
__device__ inline void FillExtra(const DetectionImage& image, uint32_t values, uint32_t first,
                                 uint32_t rows) {
  Fill(image.extra, uint64_t{first} * values, uint64_t{rows} * values, 0.0F);
}

// Rows [first, rows) hold nothing.
__device__ inline void FillRows(const DetectionImage& image, HeadLayout layout, uint32_t first,
                                uint32_t rows) {
  if (layout == HeadLayout::kLogits) {
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
__device__ inline void WriteCounts(const DetectionImage& image, HeadLayout layout, uint32_t rows,
                                   int32_t status) {
  if (layout == HeadLayout::kLogits) return WriteOutput(image, kClassStatusOutput, 0, status);
  WriteOutput(image, kNumOutput, 0, static_cast<int32_t>(rows));
  WriteOutput(image, kStatusOutput, 0, status);
}

// No detection, no class.
__device__ inline void WriteBlank(const DetectionImage& image, const HeadRule& rule, uint32_t rows,
                                  int32_t status) {
  FillRows(image, rule.layout, 0, rows);
  if (rule.layout == HeadLayout::kLogits) {
    FillOutput(image, kProbabilitiesOutput, 0, static_cast<uint32_t>(rule.num_classes), 0.0F);
  }
  if (threadIdx.x == 0) WriteCounts(image, rule.layout, 0, status);
}

// What every detection has beside its box. One row, by one thread.
__device__ inline void WriteScore(const DetectionImage& image, uint32_t row,
                                  const Candidate& candidate) {
  WriteOutput(image, kScoresOutput, row, candidate.score);
  WriteOutput(image, kClassesOutput, row, candidate.class_id);
  WriteOutput(image, kIndicesOutput, row, candidate.index);
}

// Whether the box is a detection: any without a geometry, else one with an area in the source
// image.
__device__ inline bool HasArea(const DetectionImage& image, const BoxXyxy& box) {
  const float corners[4] = {box.x1, box.y1, box.x2, box.y2};
  return !HasGeometry(image) || HasMappedArea(ReadGeometry(image), corners);
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
  // The key is the same for -0 and 0.
  const bool is_raw = rule.activation == Activation::kNone;
  const float score = is_raw ? ReadValue(head, 0, class_id) : KeyScore(key);
  WriteOutput(image, kClassScoresOutput, row, score);
  WriteOutput(image, kClassIdsOutput, row, static_cast<int32_t>(class_id));
}

// The beginning and the end of one image, which the kernels for axis-aligned and for rotated boxes
// share. Every thread of the image's block calls every function.

constexpr auto kNoneBad = ~0ULL;

// In shared memory.
struct ImageFaults {
  DetectionRecord record;
  uint32_t before_bad;
  unsigned long long first_bad;  // key or number, or kNoneBad
};

// Whether fewer than max_candidates of the image's keys come before one that is bad.
__device__ inline bool IsCandidate(const uint64_t* keys, uint32_t count, uint64_t bad_key,
                                   uint32_t max_candidates, ImageFaults& shared) {
  if (threadIdx.x == 0) shared.before_bad = 0;
  __syncthreads();
  uint32_t before = 0;
  for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) before += keys[i] < bad_key ? 1 : 0;
  atomicAdd(&shared.before_bad, before);
  __syncthreads();
  return shared.before_bad < max_candidates;
}

// A candidate that is not finite counts when it is among the best max_candidates.
__device__ inline void FindBadCandidate(const HeadBatch& heads, const DetectionBatch& batch,
                                        uint32_t image, const uint64_t* keys, ImageFaults& shared) {
  const CandidateState& state = heads.states[image];
  if (state.bad_key == 0) return;
  const uint64_t bad_key = ~uint64_t{state.bad_key};
  if (IsCandidate(keys, state.count, bad_key, batch.max_candidates, shared) && threadIdx.x == 0) {
    const Candidate bad = ReadCandidate(heads.rule, heads.images[image], bad_key);
    const bool box = !IsFinite(bad.box);
    shared.record = Fault(box ? DetectionFault::kBoxNotFinite : DetectionFault::kScoreNotFinite,
                          static_cast<uint32_t>(bad.index));
  }
  __syncthreads();
}

// Looks for everything that makes the image's result an error before its rows are written, into
// shared.record.
__device__ inline void FindFault(const HeadBatch& heads, const DetectionBatch& batch,
                                 uint32_t image, const uint64_t* keys, ImageFaults& shared) {
  if (threadIdx.x == 0) {
    shared.record = GeometryFault(batch.images[image]);
    if (shared.record.fault == DetectionFault::kNone) {
      shared.record = ValueFault(heads.rule, heads.images[image], heads.states[image]);
    }
  }
  __syncthreads();
  if (shared.record.fault == DetectionFault::kNone) {
    FindBadCandidate(heads, batch, image, keys, shared);
  }
  if (batch.masks_of_source != 0 && shared.record.fault == DetectionFault::kNone) {
    __syncthreads();  // all threads have read it
    if (threadIdx.x == 0) shared.record = MaskSideFault(batch.images[image]);
    __syncthreads();
  }
}

// No detections: of an image that has failed before, or fails here.
__device__ inline void WriteNothing(const HeadBatch& heads, const DetectionBatch& batch,
                                    uint32_t image, int32_t status, const DetectionRecord& why) {
  WriteBlank(batch.images[image], heads.rule, batch.max_rows, status);
  FillExtra(batch.images[image], batch.extra_values, 0, batch.max_rows);
  if (threadIdx.x != 0) return;
  batch.kept_rows[image] = kNoRows;
  if (batch.records != nullptr) batch.records[image] = why;
}

__device__ inline void WriteFault(const HeadBatch& heads, const DetectionBatch& batch,
                                  uint32_t image, const DetectionRecord& fault) {
  WriteNothing(heads, batch, image, static_cast<int32_t>(ErrorCode::kInvalidArgument), fault);
}

// What follows the image's rows.
__device__ inline void FinishImage(const HeadBatch& heads, const DetectionBatch& batch,
                                   uint32_t image, uint32_t rows, const DetectionRecord& record) {
  const DetectionImage& target = batch.images[image];
  FillRows(target, heads.rule.layout, rows, batch.max_rows);
  FillExtra(target, batch.extra_values, rows, batch.max_rows);
  if (threadIdx.x != 0) return;
  WriteCounts(target, heads.rule.layout, rows, 0);
  batch.kept_rows[image] = rows;
  if (batch.records == nullptr) return;
  DetectionRecord& written = batch.records[image];
  written = record;
  if (heads.rule.layout == HeadLayout::kLogits) return;
  written.num_detections = static_cast<int32_t>(rows);
  written.truncated = heads.states[image].count > batch.max_candidates ? 1 : 0;
  written.dropped = static_cast<int32_t>(heads.states[image].dropped);
}

// Calls take(size, rows) for the best max_candidates keys, a chunk at a time, of which `size` are
// among these. `rows` have been written; it returns how many have been then, until max_rows are.
template <uint32_t kSize, typename Take>
__device__ uint32_t ForEachChunk(const DetectionBatch& batch, const uint64_t* keys, uint32_t count,
                                 KeyChunk<kSize>& chunk, Take take) {
  const uint32_t candidates = min(count, batch.max_candidates);
  uint64_t from = 0;
  uint32_t rows = 0;
  for (uint32_t taken = 0; taken < candidates && rows < batch.max_rows;) {
    const uint32_t came = NextChunk(keys, count, count - taken, from, chunk);
    rows = take(min(came, candidates - taken), rows);
    taken += came;
  }
  return rows;
}

// The block's image. write_rows(keys, count) writes its rows and returns their number, or makes
// faults.record an error.
template <typename WriteRows>
__device__ void WriteImage(const HeadBatch& heads, const DetectionBatch& batch, ImageFaults& faults,
                           WriteRows write_rows) {
  const uint32_t image = blockIdx.x;
  const int32_t status = batch.images[image].status;
  if (status != 0) {
    return WriteNothing(heads, batch, image, status, Fault(DetectionFault::kNone));
  }
  const uint64_t* keys = heads.keys + size_t{image} * heads.key_capacity;
  const DetectionRecord& record = faults.record;
  FindFault(heads, batch, image, keys, faults);
  uint32_t rows = 0;
  if (record.fault == DetectionFault::kNone) rows = write_rows(keys, heads.states[image].count);
  if (record.fault != DetectionFault::kNone) return WriteFault(heads, batch, image, record);
  FinishImage(heads, batch, image, rows, record);
}

}  // namespace endcap
