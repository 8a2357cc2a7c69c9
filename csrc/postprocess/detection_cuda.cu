#include "box_decode/filter_cuda.h"
#include "cuda/launch.h"
#include "postprocess/detection_cuda.h"
#include "postprocess/detection_image_cuda.h"
#include "postprocess/detection_keypoints_cuda.h"
#include "postprocess/detection_suppress_cuda.h"
#include "postprocess/instance_masks_cuda.h"
#include "postprocess/rotated_detection_cuda.h"

namespace endcap {
namespace {

struct Shared {
  KeyChunk<kChunk> chunk;
  ChunkBoxes boxes;
  ImageFaults faults;
};

constexpr auto kNoKeypoint = ~0ULL;

// Rows of a chunk that needs no suppression. Returns how many rows there are then.
__device__ uint32_t WriteChunk(const HeadBatch& heads, const DetectionBatch& batch, uint32_t image,
                               const KeyChunk<kChunk>& chunk, uint32_t size, uint32_t rows) {
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

// The image's keypoints; or what makes its result an error, into faults.record: one that is not
// finite, or a coefficient of a mask.
__device__ void WriteImageKeypoints(const HeadBatch& heads, const DetectionBatch& batch,
                                    uint32_t image, uint32_t rows, ImageFaults& faults) {
  const DetectionImage& target = batch.images[image];
  const bool has_masks = target.masks != nullptr || target.run_lengths != nullptr;
  if (target.extra == nullptr && !has_masks) return;
  if (threadIdx.x == 0) faults.first_bad = kNoKeypoint;
  __syncthreads();  // after the rows' anchors, too
  const KeypointSource source = {batch.keypoints, heads.images[image],
                                 batch.kept_anchors + size_t{image} * batch.kept_capacity};
  FindBadKeypoint(source, rows, &faults.first_bad);
  __syncthreads();
  if (faults.first_bad != kNoKeypoint) {
    if (threadIdx.x == 0) faults.record = KeypointFault(source, faults.first_bad);
  } else if (target.extra != nullptr) {
    WriteKeypointRows(source, target, rows);
  }
  __syncthreads();
}

__global__ void __launch_bounds__(kChunk)
    WriteDetections(const __grid_constant__ HeadBatch heads,
                    const __grid_constant__ DetectionBatch batch) {
  __shared__ Shared shared;
  const uint32_t image = blockIdx.x;
  const int32_t status = batch.images[image].status;
  if (status != 0) {
    return WriteNothing(heads, batch, image, status, Fault(DetectionFault::kNone));
  }
  const uint64_t* keys = heads.keys + size_t{image} * heads.key_capacity;
  const DetectionRecord& record = shared.faults.record;
  FindFault(heads, batch, image, keys, shared.faults);
  if (record.fault != DetectionFault::kNone) return WriteFault(heads, batch, image, record);
  const uint32_t rows = WriteRows(heads, batch, image, keys, shared);
  WriteImageKeypoints(heads, batch, image, rows, shared.faults);
  if (record.fault != DetectionFault::kNone) return WriteFault(heads, batch, image, record);
  FinishImage(heads, batch, image, rows, record);
}

}  // namespace

void LaunchDetection(const DetectionLaunch& launch, void* stream) {
  auto* cuda_stream = static_cast<cudaStream_t>(stream);
  if (launch.heads.count == 0) return;
  LaunchFilter(launch.heads, cuda_stream);
  if (launch.detections.rotated.angle_row != 0) return LaunchRotatedRows(launch, cuda_stream);
  Launch(WriteDetections, static_cast<uint32_t>(launch.heads.count), kChunk, 0, cuda_stream,
         launch.heads, launch.detections);
  if (launch.masks.is_there != 0) LaunchMasks(launch, cuda_stream);
}

}  // namespace endcap
