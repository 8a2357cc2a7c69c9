#include "common/score_order.h"
#include "cuda_runtime/launch.h"
#include "nms/cuda/key_sort.h"
#include "nms/cuda/launch.h"
#include "nms/cuda/suppression.cuh"

// NMS of one image's rotated boxes: the keys are sorted by all of the GPU, then one block takes the
// boxes a chunk at a time, best first, as it does those of a head.

namespace endcap {
namespace {

struct RotatedNmsShared {
  RotatedKeyChunk chunk;
  RotatedChunk boxes;
};

struct RotatedNmsArrays {
  uint64_t* keys;         // [count]
  uint64_t* sorted_keys;  // [count]
  uint8_t* suppression;   // [launch.scratch_bytes]
};

__device__ bool AnyNan(const RotatedNmsLaunch& launch) {
  bool nan = false;
  for (int64_t i = threadIdx.x; i < launch.count; i += kRotatedChunk) {
    nan = nan || launch.scores[i] != launch.scores[i];
  }
  return __syncthreads_or(nan) != 0;
}

// kComparison: the one of RotatedRule's for the launch's method.
template <auto kComparison>
__global__ void __launch_bounds__(kRotatedChunk, 1)
    KeepRotated(const __grid_constant__ RotatedNmsLaunch launch, const RotatedNmsArrays arrays) {
  __shared__ RotatedNmsShared shared;
  const uint32_t t = threadIdx.x;
  if (AnyNan(launch)) {
    if (t == 0) *launch.kept_count = -1;
    return;
  }
  RotatedSuppression suppression(launch.rule.*kComparison, launch.scratch, arrays.suppression,
                                 shared.boxes, shared.chunk);
  const auto count = static_cast<uint32_t>(launch.count);
  const uint32_t max_rows = launch.scratch.rows;
  for (uint32_t taken = 0; taken < count && suppression.rows() < max_rows;) {
    const uint32_t size = min(kRotatedChunk, count - taken);
    if (t < size) {
      const uint64_t key = arrays.sorted_keys[taken + t];
      const uint32_t from = KeyPosition(key);
      shared.chunk.keys[t] = key;
      suppression.SetBox(launch.boxes_xywhr + size_t{5} * from,
                         launch.class_ids == nullptr ? 0 : launch.class_ids[from]);
    }
    if (launch.rule.method == RotatedNms::kProbiouFast) {
      suppression.SuppressByAll(size, max_rows, t < size);
    } else {
      suppression.SuppressGreedily(max_rows, t < size);
    }
    taken += size;
  }
  for (uint32_t row = t; row < suppression.rows(); row += kRotatedChunk) {
    launch.kept[row] = KeyPosition(suppression.kept_keys()[row]);
  }
  if (t == 0) *launch.kept_count = suppression.rows();
}

}  // namespace

void LaunchRotatedNms(const RotatedNmsLaunch& launch, void* stream) {
  auto* cuda_stream = static_cast<cudaStream_t>(stream);
  if (launch.count == 0) {
    Check(cudaMemsetAsync(launch.kept_count, 0, sizeof(int64_t), cuda_stream), "cudaMemsetAsync");
    return;
  }
  const auto count = static_cast<size_t>(launch.count);
  const size_t sort_bytes = SortScratchBytes(launch.count);
  RotatedNmsArrays arrays = {};
  uint8_t* sort = nullptr;
  const StreamScratch memory(cuda_stream, [&](StreamScratch& scratch) {
    scratch.Place(arrays.keys, count);
    scratch.Place(arrays.sorted_keys, count);
    scratch.Place(arrays.suppression, launch.scratch_bytes);
    scratch.Place(sort, sort_bytes);
  });
  MakeScoreKeys(launch.scores, arrays.keys, launch.count, cuda_stream);
  SortScoreKeys(arrays.keys, arrays.sorted_keys, launch.count, sort, sort_bytes, cuda_stream);
  const bool by_polygons = launch.rule.method == RotatedNms::kPolygon;
  Launch(by_polygons ? KeepRotated<&RotatedRule::polygon> : KeepRotated<&RotatedRule::probiou>, 1,
         kRotatedChunk, 0, cuda_stream, launch, arrays);
}

}  // namespace endcap
