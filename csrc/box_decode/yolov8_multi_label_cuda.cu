#include "box_decode/anchor_tile_cuda.h"
#include "box_decode/filter_cuda.h"
#include "box_decode/score.h"
#include "cuda/launch.h"

namespace endcap {
namespace {

__device__ bool Passes(const HeadRule& rule, float raw) {
  return raw > rule.raw_limit && ActivateScore(rule.activation, raw) > rule.score_limit;
}

// Appends the candidates that a lane has found among `Rows` classes from `first_class` on: bit row
// * kLaneAnchors + k of `passing` is the lane's k-th anchor in that row. All lanes of the warp
// come.
template <typename T>
__device__ void AppendPassing(const HeadBatch& batch, uint32_t image, const AnchorTile<T>& tile,
                              uint32_t first_class, uint32_t passing, const bool* bad_box) {
  const uint32_t lane = threadIdx.x % 32;
  uint32_t end = __popc(passing);  // the lane's share ends there
  const uint32_t own = end;
  for (uint32_t step = 1; step < 32; step *= 2) {
    const uint32_t before = __shfl_up_sync(kAllLanes, end, step);
    if (lane >= step) end += before;
  }
  const uint32_t total = __shfl_sync(kAllLanes, end, 31);
  if (total == 0) return;
  uint32_t place = 0;
  if (lane == 0) place = atomicAdd(&tile.state->count, total);
  place = __shfl_sync(kAllLanes, place, 0) + end - own;
  uint64_t* keys = batch.keys + static_cast<uint64_t>(image) * batch.key_capacity + place;
  for (; passing != 0; passing &= passing - 1) {
    const auto bit = static_cast<uint32_t>(__ffs(static_cast<int>(passing)) - 1);
    const uint32_t c = first_class + bit / kLaneAnchors<T>;
    const uint32_t at = tile.Place(bit % kLaneAnchors<T>);
    const float score = ActivateScore(batch.rule.activation, ToFloat(tile.Row(4 + c)[at]));
    const uint64_t key =
        ScoreKey(score, (tile.first + at) * static_cast<uint32_t>(batch.rule.num_classes) + c);
    if (bad_box[at] || !IsFinite(score)) NoteBadKey(*tile.state, key);
    *keys++ = key;
  }
}

template <typename T>
__device__ void FilterTile(const HeadBatch& batch, uint32_t image, bool* bad_box) {
  constexpr uint32_t kLane = kLaneAnchors<T>;
  constexpr uint32_t kRows = 32 / kLane;  // as many bits as a word has
  const AnchorTile<T> tile(batch, image, blockIdx.x);
  if (tile.first >= tile.anchors) return;
  const auto num_classes = static_cast<uint32_t>(batch.rule.num_classes);
  bool nan = false;
  if (threadIdx.x < kTileAnchors<T> && tile.Holds(threadIdx.x)) {
    const BoxXyxy box = tile.ReadBox(threadIdx.x);
    nan = IsNan(box.x1) || IsNan(box.y1) || IsNan(box.x2) || IsNan(box.y2);
    bad_box[threadIdx.x] = !IsFinite(ToPixels(batch.rule, box));
  }
  __syncthreads();
  for (uint32_t c = threadIdx.x / 32 * kRows; c < num_classes; c += kTileWarps * kRows) {
    uint32_t passing = 0;
#pragma unroll
    for (uint32_t row = 0; row < kRows; ++row) {
      if (c + row >= num_classes) break;
      float values[kLane];
      tile.Read(4 + c + row, values);
#pragma unroll
      for (uint32_t k = 0; k < kLane; ++k) {
        nan |= IsNan(values[k]);
        const bool passes = tile.Holds(tile.Place(k)) && Passes(batch.rule, values[k]);
        passing |= static_cast<uint32_t>(passes) << (row * kLane + k);
      }
    }
    AppendPassing(batch, image, tile, c, passing, bad_box);
  }
  if (__syncthreads_or(nan)) tile.NoteNan(4 + num_classes);
}

__global__ void __launch_bounds__(kTileThreads)
    FilterYolov8MultiLabel(const __grid_constant__ HeadBatch batch) {
  __shared__ bool bad_box[kTileAnchors<uint16_t>];
  const uint32_t image = blockIdx.y;
  if (batch.images[image].blank != 0) return;
  if (batch.images[image].IsHalf(0)) {
    FilterTile<uint16_t>(batch, image, bad_box);
  } else {
    FilterTile<float>(batch, image, bad_box);
  }
}

}  // namespace

// Every class over the threshold of every anchor, for heads [4+C, A].
void LaunchFilterYolov8MultiLabel(const HeadBatch& batch, cudaStream_t stream) {
  const dim3 grid(BlocksFor(batch, kTileAnchors<float>), static_cast<uint32_t>(batch.count));
  Launch(FilterYolov8MultiLabel, grid, kTileThreads, 0, stream, batch);
}

}  // namespace endcap
