#include <algorithm>

#include "box_decode/cuda/filters.h"
#include "cuda_runtime/launch.h"

namespace endcap {
namespace {

constexpr uint32_t kChunkLimits = 256;

struct LimitChunk {
  float* to;
  uint32_t count;
  float limits[kChunkLimits];
};

__global__ void __launch_bounds__(kChunkLimits)
    StoreLimits(const __grid_constant__ LimitChunk chunk) {
  if (threadIdx.x < chunk.count) chunk.to[threadIdx.x] = chunk.limits[threadIdx.x];
}

}  // namespace

void LaunchStoreClassLimits(const HeadBatch& batch, const float* host_limits, cudaStream_t stream) {
  const auto classes = static_cast<uint32_t>(batch.rule.num_classes);
  for (uint32_t first = 0; first < classes; first += kChunkLimits) {
    LimitChunk chunk = {
        batch.rule.class_limits + first, std::min(classes - first, kChunkLimits), {}};
    std::copy_n(host_limits + first, chunk.count, chunk.limits);
    Launch(StoreLimits, 1, kChunkLimits, 0, stream, chunk);
  }
}

void LaunchFilter(const HeadBatch& batch, cudaStream_t stream) {
  const size_t bytes = sizeof(CandidateState) * static_cast<size_t>(batch.count);
  Check(cudaMemsetAsync(batch.states, 0, bytes, stream), "cudaMemsetAsync");
  switch (batch.rule.layout) {
    case HeadLayout::kObjectnessRows:
      return LaunchFilterYolov5(batch, stream);
    case HeadLayout::kAnchorColumns:
      return LaunchFilterYolov8(batch, stream);
    case HeadLayout::kScoreRows:
      return LaunchFilterScoreRows(batch, stream);
    case HeadLayout::kEnd2EndRows:
      return LaunchFilterEnd2End(batch, stream);
    case HeadLayout::kDetectionRows:
      return LaunchFilterDetectionRows(batch, stream);
    case HeadLayout::kLogits:
      return LaunchFilterClassification(batch, stream);
  }
}

}  // namespace endcap
