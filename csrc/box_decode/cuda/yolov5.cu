#include "box_decode/cuda/candidate.cuh"
#include "box_decode/cuda/filters.h"
#include "box_decode/score.h"
#include "cuda_runtime/launch.h"

namespace endcap {
namespace {

constexpr uint32_t kWarps = 8;
constexpr uint32_t kWarpRows = 8;  // a warp reads one after the other
constexpr uint32_t kLoads = 4;     // values of a lane that are under way at a time

// What a row [5+C] says besides its class scores.
struct RowStart {
  BoxXyxy box;
  float raw_objectness;
};

// One row, read by a warp. All lanes call every function.
template <typename T>
struct Row {
  const HeadRule& rule;
  const T* values;
  uint32_t length;
  uint32_t anchor;

  // The lane's share of the next 32 * kLoads values from `first` on; 0 beyond the end.
  __device__ void Read(uint32_t first, float (&share)[kLoads]) const {
#pragma unroll
    for (uint32_t q = 0; q < kLoads; ++q) {
      const uint32_t i = first + 32 * q + threadIdx.x % 32;
      share[q] = i < length ? ToFloat(values[i]) : 0.0F;
    }
  }

  // Objectness times class score. Under the sigmoid, which is for few, only what can pass.
  __device__ float Score(float raw_objectness, float objectness, float raw) const {
    if (rule.activation != Activation::kSigmoid) return objectness * raw;
    if (!(raw > rule.raw_limit && raw_objectness > rule.raw_limit)) return 0.0F;
    return objectness * ActivateScore(rule.activation, raw);
  }

  __device__ uint64_t Key(float score, uint32_t c) const {
    if (!(score > rule.score_limit)) return kNoKey;
    return ScoreKey(score, anchor * static_cast<uint32_t>(rule.num_classes) + c);
  }

  // Whether the score of a key of the row is enough for its class.
  __device__ bool Passes(uint64_t key) const {
    if (key == kNoKey) return false;
    const uint32_t c = KeyPosition(key) - anchor * static_cast<uint32_t>(rule.num_classes);
    return PassesClass(rule.class_limits, c, KeyScore(key));
  }
};

__device__ inline RowStart GetRowStart(float lanes_first) {
  return {{__shfl_sync(kAllLanes, lanes_first, 0), __shfl_sync(kAllLanes, lanes_first, 1),
           __shfl_sync(kAllLanes, lanes_first, 2), __shfl_sync(kAllLanes, lanes_first, 3)},
          __shfl_sync(kAllLanes, lanes_first, 4)};
}

__device__ inline uint64_t LeastKey(uint64_t key) {
  for (int step = 16; step > 0; step /= 2) {
    const uint64_t other = __shfl_xor_sync(kAllLanes, static_cast<unsigned long long>(key), step);
    key = other < key ? other : key;
  }
  return key;
}

// Whether on_nan kDrop leaves the row out, the same for all lanes.
template <typename T>
__device__ bool IsDropped(const HeadBatch& batch, uint32_t image, const Row<T>& row) {
  const HeadRule& rule = row.rule;
  const float raw_objectness = ToFloat(row.values[4]);
  const float objectness = ActivateScore(rule.activation, raw_objectness);
  bool nan = false;
  uint64_t best = kNoKey;  // with multi_label, of the classes that pass
  for (uint32_t i = threadIdx.x % 32; i < row.length; i += 32) {
    const float value = ToFloat(row.values[i]);
    nan |= IsNan(value);
    if (i < 5) continue;
    const float score = row.Score(raw_objectness, objectness, value);
    nan |= IsNan(score);
    const uint64_t key = row.Key(score, i - 5);
    if (key < best && (rule.multi_label == 0 || row.Passes(key))) best = key;
  }
  if (__any_sync(kAllLanes, nan)) return true;
  best = LeastKey(best);
  if (!row.Passes(best)) return false;
  if (!IsFinite(KeyScore(best))) return true;
  const BoxXyxy box = ReadBoxRow(batch.images[image], 0, uint64_t{row.anchor} * row.length);
  return !IsFinite(ToPixels(rule, ApplyAnchor(rule, batch.images[image], box, row.anchor)));
}

// The best class's key of a row, the same for all lanes, or kNoKey; with multi_label the keys of
// all classes are appended here, and the result is kNoKey.
template <typename T>
__device__ uint64_t FilterRow(const HeadBatch& batch, uint32_t image, const Row<T>& row) {
  CandidateState& state = batch.states[image];
  RowStart start = {};
  float objectness = 0.0F;
  const auto has_bad_box = [&] {
    const BoxXyxy box = ApplyAnchor(row.rule, batch.images[image], start.box, row.anchor);
    return !IsFinite(ToPixels(row.rule, box));
  };
  const auto note_bad = [&](uint64_t key) {
    if (!IsFinite(KeyScore(key)) || has_bad_box()) NoteBadKey(state, key);
  };
  uint64_t best = kNoKey;
  for (uint32_t first = 0; first < row.length; first += 32 * kLoads) {
    float share[kLoads];
    row.Read(first, share);
    if (first == 0) {
      start = GetRowStart(share[0]);
      objectness = ActivateScore(row.rule.activation, start.raw_objectness);
    }
#pragma unroll
    for (uint32_t q = 0; q < kLoads; ++q) {
      const uint32_t i = first + 32 * q + threadIdx.x % 32;
      if (i < row.length && IsNan(share[q])) {
        NoteFirst(&state.nan[0], row.anchor * row.length + i);
      }
      uint64_t key = kNoKey;
      if (i >= 5 && i < row.length) {
        const float score = row.Score(start.raw_objectness, objectness, share[q]);
        if (IsNan(score)) NoteFirst(&state.bad_row, row.anchor);
        key = row.Key(score, i - 5);
      }
      if (row.rule.multi_label != 0) {
        if (!row.Passes(key)) key = kNoKey;
        if (key != kNoKey) note_bad(key);
        AppendKeys(batch, image, key);
      } else {
        best = key < best ? key : best;
      }
    }
  }
  if (!__any_sync(kAllLanes, best != kNoKey)) return kNoKey;
  best = LeastKey(best);
  if (!row.Passes(best)) return kNoKey;
  if (threadIdx.x % 32 == 0) note_bad(best);
  return best;
}

template <typename T>
__device__ void FilterRows(const HeadBatch& batch, uint32_t image) {
  const HeadImage& head = batch.images[image];
  const auto length = 5 + static_cast<uint32_t>(batch.rule.num_classes);
  const uint32_t first = (blockIdx.x * kWarps + threadIdx.x / 32) * kWarpRows;
  uint64_t lanes_key = kNoKey;  // lane r keeps that of the warp's row r
  for (uint32_t r = 0; r < kWarpRows && first + r < head.rows; ++r) {
    const uint32_t anchor = first + r;
    const T* values =
        static_cast<const T*>(head.inputs[0]) + static_cast<uint64_t>(anchor) * length;
    const Row<T> row = {batch.rule, values, length, anchor};
    if (batch.rule.drops != 0 && IsDropped(batch, image, row)) {
      if (threadIdx.x % 32 == 0) CountDropped(batch.states[image]);
      continue;
    }
    const uint64_t key = FilterRow(batch, image, row);
    if (threadIdx.x % 32 == r) lanes_key = key;
  }
  AppendKeys(batch, image, lanes_key);
}

__global__ void __launch_bounds__(32 * kWarps)
    FilterYolov5(const __grid_constant__ HeadBatch batch) {
  WithElementType(batch.images[blockIdx.y], 0,
                  [&](auto value) { FilterRows<decltype(value)>(batch, blockIdx.y); });
}

}  // namespace

// A warp for each row of heads [A, 5+C].
void LaunchFilterYolov5(const HeadBatch& batch, cudaStream_t stream) {
  LaunchForRows(FilterYolov5, batch, kWarps * kWarpRows, 32 * kWarps, stream);
}

}  // namespace endcap
