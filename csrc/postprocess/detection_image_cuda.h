#pragma once

#include "postprocess/detection_rows_cuda.h"

// The beginning and the end of one image, which the kernels for oriented and for rotated boxes
// share. Every thread of the image's block comes to every function.

namespace endcap {

// In shared memory.
struct ImageFaults {
  DetectionRecord record;
  uint32_t before_bad;
  unsigned long long first_bad;
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
    __syncthreads();  // everybody has read it
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
  FillRows(target, heads.rule.family, rows, batch.max_rows);
  FillExtra(target, batch.extra_values, rows, batch.max_rows);
  if (threadIdx.x != 0) return;
  WriteCounts(target, heads.rule.family, rows, 0);
  batch.kept_rows[image] = rows;
  if (batch.records == nullptr) return;
  DetectionRecord& told = batch.records[image];
  told = record;
  if (heads.rule.family == HeadFamily::kClassification) return;
  told.num_detections = static_cast<int32_t>(rows);
  told.truncated = heads.states[image].count > batch.max_candidates ? 1 : 0;
}

}  // namespace endcap
