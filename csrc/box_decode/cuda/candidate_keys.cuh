#pragma once

#include <cuda_runtime.h>

#include <algorithm>

#include "box_decode/box_format.h"
#include "box_decode/cuda/head_batch.h"
#include "common/half.h"
#include "common/score_order.h"
#include "cuda_runtime/launch.h"

// What the filter kernels of all families do with a value, a box and a candidate.

namespace endcap {

inline constexpr uint32_t kAllLanes = 0xFFFFFFFFU;
inline constexpr uint64_t kNoKey = ~uint64_t{0};

__device__ inline float ToFloat(float value) { return value; }
__device__ inline float ToFloat(uint16_t half) { return HalfToFloat(half); }

// Logits or scores of an image or a row.
template <typename T>
struct Numbers {
  const T* values;
  uint32_t count;
  __device__ float operator[](uint32_t i) const { return ToFloat(values[i]); }
};

// Element `i` of an input, for where dtypes need no code of their own.
__device__ inline float ReadValue(const HeadImage& head, int input, uint64_t i) {
  const void* values = AssumeGlobal(head.inputs[input]);
  if (head.IsHalf(input)) return HalfToFloat(static_cast<const uint16_t*>(values)[i]);
  return static_cast<const float*>(values)[i];
}

// Element `i` of an input of whole numbers.
__device__ inline int64_t ReadInteger(const HeadImage& head, int input, uint64_t i) {
  const void* values = AssumeGlobal(head.inputs[input]);
  if (head.IsWide(input)) return static_cast<const int64_t*>(values)[i];
  return static_cast<const int32_t*>(values)[i];
}

// Four numbers of an input.
__device__ inline BoxXyxy ReadBoxRow(const HeadImage& head, int input, uint64_t first) {
  return {ReadValue(head, input, first), ReadValue(head, input, first + 1),
          ReadValue(head, input, first + 2), ReadValue(head, input, first + 3)};
}

__device__ inline bool IsNan(float value) { return value != value; }
__device__ inline bool IsFinite(float value) { return value - value == 0.0F; }
__device__ inline bool IsFinite(const BoxXyxy& box) {
  return IsFinite(box.x1) && IsFinite(box.y1) && IsFinite(box.x2) && IsFinite(box.y2);
}

__device__ inline BoxXyxy ToPixels(const HeadRule& rule, const BoxXyxy& raw) {
  return BoxInPixels(raw, rule.box_format, rule.box_unit, rule.input_width, rule.input_height);
}

// Notes the first of something: of all calls, the least number stays.
__device__ inline void NoteFirst(uint32_t* first, uint32_t number) { atomicMax(first, ~number); }
__device__ inline void NoteBadKey(CandidateState& state, uint64_t key) {
  atomicMax(&state.bad_key, static_cast<unsigned long long>(~key));
}

// Calls filter with a value of the type that `input` of the image has, float or half; not for a
// blank image.
template <typename Filter>
__device__ void WithElementType(const HeadImage& head, int input, const Filter& filter) {
  if (head.blank != 0) return;
  if (head.IsHalf(input)) {
    filter(uint16_t{});
  } else {
    filter(float{});
  }
}

// Whether all extra values of a row are finite.
__device__ inline bool HasFiniteExtras(const HeadRule& rule, const HeadImage& head, uint32_t row) {
  const uint32_t end = rule.values.first_extra + rule.extra_values;
  for (uint32_t value = rule.values.first_extra; value < end; ++value) {
    if (!IsFinite(ReadValue(head, 0, rule.values.At(head.rows, value, row)))) return false;
  }
  return true;
}

// With on_nan kDrop: counts a row that is left out. By one thread.
__device__ inline void CountDropped(CandidateState& state) { atomicAdd(&state.dropped, 1U); }

// Appends the key of each lane that has one (others give kNoKey). All lanes of the warp come.
__device__ inline void AppendKeys(const HeadBatch& batch, uint32_t image, uint64_t key) {
  const bool has = key != kNoKey;
  const uint32_t lanes = __ballot_sync(kAllLanes, has);
  if (lanes == 0) return;
  const uint32_t lane = threadIdx.x % 32;
  uint32_t place = 0;
  if (lane == 0) place = atomicAdd(&batch.states[image].count, __popc(lanes));
  place = __shfl_sync(kAllLanes, place, 0);
  if (!has) return;
  const uint32_t before = lanes & ((1U << lane) - 1U);
  batch.keys[static_cast<uint64_t>(image) * batch.key_capacity + place + __popc(before)] = key;
}

// Launches a kernel whose grid's x covers the rows of any image, and whose y has the images.
inline void LaunchForRows(void (*kernel)(HeadBatch), const HeadBatch& batch,
                          uint32_t rows_per_block, uint32_t threads, cudaStream_t stream) {
  uint64_t most = 1;
  for (int i = 0; i < batch.count; ++i) most = std::max<uint64_t>(most, batch.images[i].rows);
  const auto blocks = static_cast<uint32_t>((most + rows_per_block - 1) / rows_per_block);
  Launch(kernel, dim3(blocks, static_cast<uint32_t>(batch.count)), threads, 0, stream, batch);
}

}  // namespace endcap
