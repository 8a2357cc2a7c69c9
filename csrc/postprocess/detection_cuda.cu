#include "box_decode/filter_cuda.h"
#include "cuda/launch.h"
#include "postprocess/detection_cuda.h"
#include "postprocess/detection_keypoints_cuda.h"
#include "postprocess/detection_suppress_cuda.h"

namespace endcap {
namespace {

struct Shared {
  KeyChunk chunk;
  ChunkBoxes boxes;
  DetectionRecord record;
  uint32_t before_bad;
  unsigned long long bad_keypoint;
};

constexpr auto kNoKeypoint = ~0ULL;

// A candidate that is not finite counts when it is among the best max_candidates.
__device__ void FindBadCandidate(const HeadBatch& heads, const DetectionBatch& batch,
                                 uint32_t image, const uint64_t* keys, Shared& shared) {
  const CandidateState& state = heads.states[image];
  if (state.bad_key == 0) return;
  const uint64_t bad_key = ~uint64_t{state.bad_key};
  uint32_t before = 0;
  for (uint32_t i = threadIdx.x; i < state.count; i += kChunk) before += keys[i] < bad_key ? 1 : 0;
  atomicAdd(&shared.before_bad, before);
  __syncthreads();
  if (threadIdx.x == 0 && shared.before_bad < batch.max_candidates) {
    const Candidate bad = ReadCandidate(heads.rule, heads.images[image], bad_key);
    const bool box = !IsFinite(bad.box);
    shared.record = Fault(box ? DetectionFault::kBoxNotFinite : DetectionFault::kScoreNotFinite,
                          static_cast<uint32_t>(bad.index));
  }
  __syncthreads();
}

// Looks for everything that makes the image's result an error, into shared.record.
__device__ void FindFault(const HeadBatch& heads, const DetectionBatch& batch, uint32_t image,
                          const uint64_t* keys, Shared& shared) {
  if (threadIdx.x == 0) {
    shared.before_bad = 0;
    shared.record = GeometryFault(batch.images[image]);
    if (shared.record.fault == DetectionFault::kNone) {
      shared.record = ValueFault(heads.rule, heads.images[image], heads.states[image]);
    }
  }
  __syncthreads();
  if (shared.record.fault == DetectionFault::kNone) {
    FindBadCandidate(heads, batch, image, keys, shared);
  }
}

// Rows of a chunk that needs no suppression. Returns how many rows there are then.
__device__ uint32_t WriteChunk(const HeadBatch& heads, const DetectionBatch& batch, uint32_t image,
                               const KeyChunk& chunk, uint32_t size, uint32_t rows) {
  const uint32_t row = rows + threadIdx.x;
  const HeadImage& head = heads.images[image];
  if (threadIdx.x < size && row < batch.max_rows) {
    const uint64_t key = chunk.keys[threadIdx.x];
    if (heads.rule.family == HeadFamily::kClassification) {
      WriteClassRow(batch.images[image], heads.rule, head, row, key);
    } else {
      WriteRow(batch.images[image], row, ReadCandidate(heads.rule, head, key));
    }
  }
  return min(rows + size, batch.max_rows);
}

__device__ uint32_t WriteRows(const HeadBatch& heads, const DetectionBatch& batch, uint32_t image,
                              const uint64_t* keys, Shared& shared) {
  const uint32_t count = heads.states[image].count;
  const uint32_t candidates = min(count, batch.max_candidates);
  uint64_t from = 0;
  uint32_t rows = 0;
  for (uint32_t taken = 0; taken < candidates && rows < batch.max_rows;) {
    const uint32_t came = NextChunk(keys, count, count - taken, from, shared.chunk);
    const uint32_t size = min(came, candidates - taken);
    rows = batch.suppresses != 0 ? SuppressChunk(heads.rule, heads.images[image], batch, image,
                                                 shared.chunk, size, rows, shared.boxes)
                                 : WriteChunk(heads, batch, image, shared.chunk, size, rows);
    taken += came;
  }
  return rows;
}

// The image's keypoints, or what makes its result an error, into shared.record.
__device__ void WriteImageKeypoints(const HeadBatch& heads, const DetectionBatch& batch,
                                    uint32_t image, uint32_t rows, Shared& shared) {
  const DetectionImage& target = batch.images[image];
  if (target.keypoints == nullptr) return;
  if (threadIdx.x == 0) shared.bad_keypoint = kNoKeypoint;
  __syncthreads();  // after the rows' anchors, too
  const KeypointSource source = {batch.keypoints, heads.images[image],
                                 batch.kept_anchors + size_t{image} * batch.kept_capacity};
  FindBadKeypoint(source, rows, &shared.bad_keypoint);
  __syncthreads();
  if (shared.bad_keypoint == kNoKeypoint) {
    WriteKeypointRows(source, target, rows);
  } else if (threadIdx.x == 0) {
    shared.record = KeypointFault(source, shared.bad_keypoint);
  }
  __syncthreads();
}

__device__ void WriteFault(const HeadBatch& heads, const DetectionBatch& batch, uint32_t image,
                           const DetectionRecord& fault, DetectionRecord* record) {
  constexpr auto kBad = static_cast<int32_t>(ErrorCode::kInvalidArgument);
  WriteBlank(batch.images[image], heads.rule, batch.max_rows, kBad);
  FillKeypoints(batch.keypoints, batch.images[image], 0, batch.max_rows);
  if (threadIdx.x == 0 && record != nullptr) *record = fault;
}

__global__ void __launch_bounds__(kChunk)
    WriteDetections(const __grid_constant__ HeadBatch heads,
                    const __grid_constant__ DetectionBatch batch) {
  __shared__ Shared shared;
  const uint32_t image = blockIdx.x;
  const DetectionImage& target = batch.images[image];
  DetectionRecord* record = batch.records == nullptr ? nullptr : &batch.records[image];
  if (target.status != 0) {
    WriteBlank(target, heads.rule, batch.max_rows, target.status);
    FillKeypoints(batch.keypoints, target, 0, batch.max_rows);
    if (threadIdx.x == 0 && record != nullptr) *record = Fault(DetectionFault::kNone);
    return;
  }
  const uint64_t* keys = heads.keys + size_t{image} * heads.key_capacity;
  FindFault(heads, batch, image, keys, shared);
  if (shared.record.fault != DetectionFault::kNone) {
    return WriteFault(heads, batch, image, shared.record, record);
  }
  const uint32_t rows = WriteRows(heads, batch, image, keys, shared);
  WriteImageKeypoints(heads, batch, image, rows, shared);
  if (shared.record.fault != DetectionFault::kNone) {
    return WriteFault(heads, batch, image, shared.record, record);
  }
  FillRows(target, heads.rule.family, rows, batch.max_rows);
  FillKeypoints(batch.keypoints, target, rows, batch.max_rows);
  if (threadIdx.x != 0) return;
  WriteCounts(target, heads.rule.family, rows, 0);
  if (record == nullptr) return;
  *record = shared.record;
  if (heads.rule.family == HeadFamily::kClassification) return;
  record->num_detections = static_cast<int32_t>(rows);
  record->truncated = heads.states[image].count > batch.max_candidates ? 1 : 0;
}

}  // namespace

void LaunchDetection(const DetectionLaunch& launch, void* stream) {
  auto* cuda_stream = static_cast<cudaStream_t>(stream);
  if (launch.heads.count == 0) return;
  LaunchFilter(launch.heads, cuda_stream);
  Launch(WriteDetections, static_cast<uint32_t>(launch.heads.count), kChunk, 0, cuda_stream,
         launch.heads, launch.detections);
}

}  // namespace endcap
