#include <bit>

#include "box_decode/cuda/candidate_keys.cuh"
#include "box_decode/cuda/filters.h"
#include "box_decode/score.h"
#include "cuda_runtime/block_sum.h"
#include "cuda_runtime/launch.h"

namespace endcap {
namespace {

// How a block reads a tile of a yolov8 head [4+C, A]: neighbouring anchors, every row. The block's
// warps take rows in turn; each lane takes 16 bytes of a row.

// Warps of a block that reads a tile: each anchor of the tile has a thread, and shared memory holds
// the best score of each anchor and warp.
constexpr uint32_t kTileWarps = 8;
// Such blocks that share a multiprocessor at least; registers are limited for that, to 64 a thread.
constexpr int kTileBlocks = 4;
// Rows that a warp of FilterYolov8 reads at once, so that it waits for memory a few times and not
// for each: two batches of 8 warps are the 80 classes of COCO.
constexpr uint32_t kBatchRows = 5;
constexpr uint32_t kTileThreads = 32 * kTileWarps;

template <typename T>
constexpr uint32_t kLaneAnchors = 16 / sizeof(T);
template <typename T>
constexpr uint32_t kTileAnchors = 32 * kLaneAnchors<T>;
static_assert(kTileAnchors<uint16_t> <= kTileThreads);  // a thread for each anchor

// Whether a raw score makes its class a candidate.
__device__ bool Passes(const HeadRule& rule, uint32_t c, float raw) {
  if (!(raw > rule.raw_limit)) return false;
  const float score = ActivateScore(rule.activation, raw);
  return score > rule.score_limit && PassesClass(rule.class_limits, c, score);
}

template <typename T>
struct AnchorTile {
  const T* head;
  uint32_t anchors;  // of the head: the length of a row
  uint32_t first;    // the tile's first anchor
  bool aligned;      // 16 bytes can be read at once
  CandidateState* state;

  __device__ AnchorTile(const HeadBatch& batch, uint32_t image, uint32_t tile)
      : head(static_cast<const T*>(batch.images[image].inputs[0])),
        anchors(batch.images[image].rows),
        first(tile * kTileAnchors<T>),
        aligned(anchors % kLaneAnchors<T> == 0 && reinterpret_cast<uintptr_t>(head) % 16 == 0),
        state(&batch.states[image]) {}

  __device__ const T* Row(uint32_t row) const {
    return head + static_cast<uint64_t>(row) * anchors + first;
  }
  // The lane's k-th anchor, counted from the tile's first.
  __device__ uint32_t Place(uint32_t k) const {
    const uint32_t lane = threadIdx.x % 32;
    return aligned ? lane * kLaneAnchors<T> + k : k * 32 + lane;
  }
  __device__ bool Holds(uint32_t place) const { return place < anchors - first; }

  // A lane's values of a row, 16 bytes; beyond the last anchor those of the tile's first ones.
  struct Lane {
    T values[kLaneAnchors<T>];
  };
  template <bool kAligned>
  __device__ Lane Load(uint32_t row) const {
    const auto place = [&](uint32_t k) { return Holds(Place(k)) ? Place(k) : 0; };
    const T* from = AssumeGlobal(Row(row));
    if constexpr (kAligned) {
      return std::bit_cast<Lane>(__ldg(reinterpret_cast<const uint4*>(from + place(0))));
    } else {
      Lane lane;
#pragma unroll
      for (uint32_t k = 0; k < kLaneAnchors<T>; ++k) lane.values[k] = __ldg(from + place(k));
      return lane;
    }
  }
  __device__ Lane Load(uint32_t row) const { return aligned ? Load<true>(row) : Load<false>(row); }

  // Four rows of boxes, for one anchor.
  __device__ BoxXyxy ReadBox(uint32_t place) const {
    return {ToFloat(Row(0)[place]), ToFloat(Row(1)[place]), ToFloat(Row(2)[place]),
            ToFloat(Row(3)[place])};
  }

  // Whether on_nan kDrop leaves the anchor at `place` out, whose box this is.
  __device__ bool IsDropped(const HeadRule& rule, const HeadImage& image, uint32_t place,
                            const BoxXyxy& box) const {
    bool nan = IsNan(box.x1) || IsNan(box.y1) || IsNan(box.x2) || IsNan(box.y2);
    float best = -INFINITY;  // with multi_label, of the classes that pass
    uint32_t best_class = 0;
    for (uint32_t c = 0; c < static_cast<uint32_t>(rule.num_classes); ++c) {
      const float raw = ToFloat(Row(4 + c)[place]);
      nan |= IsNan(raw);
      if (raw > best && (rule.multi_label == 0 || Passes(rule, c, raw))) {
        best = raw;
        best_class = c;
      }
    }
    if (nan) return true;
    if (!Passes(rule, best_class, best)) return false;
    const float score = ActivateScore(rule.activation, best);
    return !IsFinite(score) || !IsFinite(ToPixels(rule, box)) ||
           !HasFiniteExtras(rule, image, first + place);
  }

  // Notes the first NaN of the tile, in any row. For when there is one. All threads come.
  __device__ void NoteNan(uint32_t rows) const {
    for (uint32_t row = threadIdx.x / 32; row < rows; row += kTileWarps) {
      const Lane lane = Load(row);
      for (uint32_t k = 0; k < kLaneAnchors<T>; ++k) {
        if (IsNan(ToFloat(lane.values[k])))
          NoteFirst(&state->nan[0], row * anchors + first + Place(k));
      }
    }
  }
};

// The greatest raw score that each warp found for each anchor, and its class.
struct WarpBests {
  float scores[kTileWarps][kTileAnchors<uint16_t>];
  uint32_t classes[kTileWarps][kTileAnchors<uint16_t>];
};
static_assert(sizeof(WarpBests) <= 48 << 10);  // what every GPU gives a block

// The lowest class of the lane's greatest scores among the warp's classes. Whether there was a NaN.
template <bool kAligned, typename T>
__device__ bool FindWarpBests(const AnchorTile<T>& tile, uint32_t num_classes, WarpBests& bests) {
  constexpr uint32_t kLane = kLaneAnchors<T>;
  constexpr uint32_t kRows = kAligned ? kBatchRows : sizeof(T);  // 16 loads of a value each
  const uint32_t warp = threadIdx.x / 32;
  float best[kLane];
  uint32_t best_class[kLane];
  bool nan = false;
  for (uint32_t k = 0; k < kLane; ++k) {
    best[k] = -INFINITY;
    best_class[k] = 0;
  }
  for (uint32_t first = warp; first < num_classes; first += kTileWarps * kRows) {
    // The last class is read in place of those beyond it: reading it again changes nothing.
    const auto class_at = [&](uint32_t j) { return min(first + j * kTileWarps, num_classes - 1); };
    typename AnchorTile<T>::Lane lanes[kRows];
#pragma unroll
    for (uint32_t j = 0; j < kRows; ++j) {
      lanes[j] = tile.template Load<kAligned>(4 + class_at(j));
    }
#pragma unroll
    for (uint32_t j = 0; j < kRows; ++j) {
#pragma unroll
      for (uint32_t k = 0; k < kLane; ++k) {
        const float value = ToFloat(lanes[j].values[k]);
        nan |= IsNan(value);
        if (value > best[k]) {
          best[k] = value;
          best_class[k] = class_at(j);
        }
      }
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
  if (!Passes(rule, best_class, raw)) return kNoKey;
  const float score = ActivateScore(rule.activation, raw);
  const uint32_t anchor = tile.first + place;
  const uint64_t key =
      ScoreKey(score, anchor * static_cast<uint32_t>(rule.num_classes) + best_class);
  if (rule.drops == 0 && (!IsFinite(score) || !IsFinite(ToPixels(rule, raw_box)))) {
    NoteBadKey(*tile.state, key);
  }
  return key;
}

template <typename T>
__device__ void FilterTileForBestClass(const HeadBatch& batch, uint32_t image, WarpBests& bests) {
  const AnchorTile<T> tile(batch, image, blockIdx.x);
  if (tile.first >= tile.anchors) return;
  const auto num_classes = static_cast<uint32_t>(batch.rule.num_classes);
  const uint32_t place = threadIdx.x;  // a thread for each anchor
  const bool has_anchor = place < kTileAnchors<T> && tile.Holds(place);
  BoxXyxy box = {};
  if (has_anchor) box = tile.ReadBox(place);
  bool nan = IsNan(box.x1) || IsNan(box.y1) || IsNan(box.x2) || IsNan(box.y2);
  nan |= tile.aligned ? FindWarpBests<true>(tile, num_classes, bests)
                      : FindWarpBests<false>(tile, num_classes, bests);
  const bool tile_has_nan = __syncthreads_or(nan) != 0;
  if (tile_has_nan && batch.rule.drops == 0) {
    tile.NoteNan(4 + num_classes);
    return;
  }
  if (threadIdx.x / 32 * 32 >= kTileAnchors<T>) return;
  uint64_t key = has_anchor ? BestKey(batch.rule, tile, place, box, bests) : kNoKey;
  if (batch.rule.drops != 0 && has_anchor && (tile_has_nan || key != kNoKey) &&
      tile.IsDropped(batch.rule, batch.images[image], place, box)) {
    CountDropped(*tile.state);
    key = kNoKey;
  }
  AppendKeys(batch, image, key);
}

__global__ void __launch_bounds__(kTileThreads, kTileBlocks)
    FilterYolov8(const __grid_constant__ HeadBatch batch) {
  __shared__ WarpBests bests;
  WithElementType(batch.images[blockIdx.y], 0, [&](auto value) {
    FilterTileForBestClass<decltype(value)>(batch, blockIdx.y, bests);
  });
}

// Appends the candidates that a lane has found among `Rows` classes from `first_class` on: bit row
// * kLaneAnchors + k of `passing` is the lane's k-th anchor in that row. All lanes of the warp
// come.
template <typename T>
__device__ void AppendPassing(const HeadBatch& batch, uint32_t image, const AnchorTile<T>& tile,
                              uint32_t first_class, uint32_t passing, const bool* bad_box) {
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t own = __popc(passing);
  const uint32_t end = InclusiveWarpSum(own);  // the lane's share ends there
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
__device__ void FilterTileForEveryClass(const HeadBatch& batch, uint32_t image, bool* bad_box) {
  // With on_nan kDrop `bad_box` marks the anchors that are dropped, and their scores are left out.
  const bool drops = batch.rule.drops != 0;
  constexpr uint32_t kLane = kLaneAnchors<T>;
  constexpr uint32_t kRows = 32 / kLane;  // as many bits as a word has
  const AnchorTile<T> tile(batch, image, blockIdx.x);
  if (tile.first >= tile.anchors) return;
  const auto num_classes = static_cast<uint32_t>(batch.rule.num_classes);
  bool nan = false;
  if (threadIdx.x < kTileAnchors<T> && tile.Holds(threadIdx.x)) {
    const BoxXyxy box = tile.ReadBox(threadIdx.x);
    nan = IsNan(box.x1) || IsNan(box.y1) || IsNan(box.x2) || IsNan(box.y2);
    bad_box[threadIdx.x] = drops ? tile.IsDropped(batch.rule, batch.images[image], threadIdx.x, box)
                                 : !IsFinite(ToPixels(batch.rule, box));
    if (drops && bad_box[threadIdx.x]) CountDropped(*tile.state);
  }
  __syncthreads();
  for (uint32_t c = threadIdx.x / 32 * kRows; c < num_classes; c += kTileWarps * kRows) {
    uint32_t passing = 0;
#pragma unroll
    for (uint32_t row = 0; row < kRows; ++row) {
      if (c + row >= num_classes) break;
      const auto lane = tile.Load(4 + c + row);
#pragma unroll
      for (uint32_t k = 0; k < kLane; ++k) {
        const float value = ToFloat(lane.values[k]);
        nan |= IsNan(value);
        const bool passes = tile.Holds(tile.Place(k)) && Passes(batch.rule, c + row, value) &&
                            !(drops && bad_box[tile.Place(k)]);
        passing |= static_cast<uint32_t>(passes) << (row * kLane + k);
      }
    }
    AppendPassing(batch, image, tile, c, passing, bad_box);
  }
  if (__syncthreads_or(nan) && !drops) tile.NoteNan(4 + num_classes);
}

__global__ void __launch_bounds__(kTileThreads)
    FilterYolov8MultiLabel(const __grid_constant__ HeadBatch batch) {
  __shared__ bool bad_box[kTileAnchors<uint16_t>];
  WithElementType(batch.images[blockIdx.y], 0, [&](auto value) {
    FilterTileForEveryClass<decltype(value)>(batch, blockIdx.y, bad_box);
  });
}

}  // namespace

// For heads [4+C, A]: the best class of every anchor, or with multi_label every class over the
// threshold.
void LaunchFilterYolov8(const HeadBatch& batch, cudaStream_t stream) {
  LaunchForRows(batch.rule.multi_label != 0 ? FilterYolov8MultiLabel : FilterYolov8, batch,
                kTileAnchors<float>, kTileThreads, stream);
}

}  // namespace endcap
