#include "box_decode/anchor_tile_cuda.h"
#include "box_decode/filter_cuda.h"
#include "box_decode/score.h"
#include "cuda/launch.h"

namespace endcap {
namespace {

// The greatest raw score that each warp found for each anchor, and its class.
struct WarpBests {
  float scores[kTileWarps][kTileAnchors<uint16_t>];
  uint32_t classes[kTileWarps][kTileAnchors<uint16_t>];
};
static_assert(sizeof(WarpBests) <= 48 << 10);  // what every GPU gives a block

// The lowest class of the lane's greatest scores among the warp's classes. Whether there was a NaN.
template <typename T>
__device__ bool FindWarpBests(const AnchorTile<T>& tile, uint32_t num_classes, WarpBests& bests) {
  constexpr uint32_t kLane = kLaneAnchors<T>;
  const uint32_t warp = threadIdx.x / 32;
  float best[kLane];
  uint32_t best_class[kLane];
  bool nan = false;
  for (uint32_t k = 0; k < kLane; ++k) {
    best[k] = -INFINITY;
    best_class[k] = 0;
  }
  const auto take = [&](uint32_t c, const float (&values)[kLane]) {
#pragma unroll
    for (uint32_t k = 0; k < kLane; ++k) {
      nan |= IsNan(values[k]);
      if (values[k] > best[k]) {
        best[k] = values[k];
        best_class[k] = c;
      }
    }
  };
  float values[kLane];
  if (tile.aligned) {
    for (uint32_t first = warp; first < num_classes; first += kTileWarps * kBatchRows) {
      // The last class stands for those beyond it: to meet it again changes nothing.
      const auto class_at = [&](uint32_t j) {
        return min(first + j * kTileWarps, num_classes - 1);
      };
      uint4 raw[kBatchRows];
#pragma unroll
      for (uint32_t j = 0; j < kBatchRows; ++j) raw[j] = tile.Load(4 + class_at(j));
#pragma unroll
      for (uint32_t j = 0; j < kBatchRows; ++j) {
        tile.Unpack(raw[j], values);
        take(class_at(j), values);
      }
    }
  } else {
    for (uint32_t c = warp; c < num_classes; c += kTileWarps) {
      tile.Read(4 + c, values);
      take(c, values);
    }
  }
#pragma unroll
  for (uint32_t k = 0; k < kLane; ++k) {
    bests.scores[warp][tile.Place(k)] = best[k];
    bests.classes[warp][tile.Place(k)] = best_class[k];
  }
  return nan;
}

// The key of the anchor at `place`, or kNoKey.
template <typename T>
__device__ uint64_t BestKey(const HeadRule& rule, const AnchorTile<T>& tile, uint32_t place,
                            const BoxXyxy& raw_box, const WarpBests& bests) {
  float raw = bests.scores[0][place];
  uint32_t best_class = bests.classes[0][place];
  for (uint32_t warp = 1; warp < kTileWarps; ++warp) {
    const float other = bests.scores[warp][place];
    const uint32_t other_class = bests.classes[warp][place];
    if (other > raw || (other == raw && other_class < best_class)) {
      raw = other;
      best_class = other_class;
    }
  }
  if (!(raw > rule.raw_limit)) return kNoKey;
  const float score = ActivateScore(rule.activation, raw);
  if (!(score > rule.score_limit)) return kNoKey;
  const uint32_t anchor = tile.first + place;
  const uint64_t key =
      ScoreKey(score, anchor * static_cast<uint32_t>(rule.num_classes) + best_class);
  if (!IsFinite(score) || !IsFinite(ToPixels(rule, raw_box))) NoteBadKey(*tile.state, key);
  return key;
}

template <typename T>
__device__ void FilterTile(const HeadBatch& batch, uint32_t image, WarpBests& bests) {
  const AnchorTile<T> tile(batch, image, blockIdx.x);
  if (tile.first >= tile.anchors) return;
  const auto num_classes = static_cast<uint32_t>(batch.rule.num_classes);
  const uint32_t place = threadIdx.x;  // a thread for each anchor
  const bool has_anchor = place < kTileAnchors<T> && tile.Holds(place);
  BoxXyxy box = {};
  if (has_anchor) box = tile.ReadBox(place);
  bool nan = IsNan(box.x1) || IsNan(box.y1) || IsNan(box.x2) || IsNan(box.y2);
  nan |= FindWarpBests(tile, num_classes, bests);
  if (__syncthreads_or(nan)) {
    tile.NoteNan(4 + num_classes);
    return;
  }
  if (threadIdx.x / 32 * 32 >= kTileAnchors<T>) return;
  const uint64_t key = has_anchor ? BestKey(batch.rule, tile, place, box, bests) : kNoKey;
  AppendKeys(batch, image, key);
}

__global__ void __launch_bounds__(kTileThreads, kTileBlocks)
    FilterYolov8(const __grid_constant__ HeadBatch batch) {
  __shared__ WarpBests bests;
  const uint32_t image = blockIdx.y;
  if (batch.images[image].blank != 0) return;
  if (batch.images[image].IsHalf(0)) {
    FilterTile<uint16_t>(batch, image, bests);
  } else {
    FilterTile<float>(batch, image, bests);
  }
}

}  // namespace

// The best class of every anchor, for heads [4+C, A].
void LaunchFilterYolov8(const HeadBatch& batch, cudaStream_t stream) {
  const dim3 grid(BlocksFor(batch, kTileAnchors<float>), static_cast<uint32_t>(batch.count));
  Launch(FilterYolov8, grid, kTileThreads, 0, stream, batch);
}

}  // namespace endcap
