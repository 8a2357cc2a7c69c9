#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "nms/iou.h"

// Greedy suppression inside one block of 32 warps; groups of 32 candidates are settled at once.

namespace endcap {

struct NmsBox {
  float4 xyxy;
  float area;
  int32_t class_id;
};

__device__ inline NmsBox MakeNmsBox(const float4& xyxy, int32_t class_id) {
  const float numbers[4] = {xyxy.x, xyxy.y, xyxy.z, xyxy.w};
  return {xyxy, BoxArea(numbers), class_id};
}

// Whether the kept box suppresses the candidate. limit: FloatBelow of the IoU threshold.
__device__ inline bool Suppresses(const NmsBox& kept, const NmsBox& candidate, float limit) {
  if (kept.class_id != candidate.class_id) return false;
  const float a[4] = {kept.xyxy.x, kept.xyxy.y, kept.xyxy.z, kept.xyxy.w};
  const float b[4] = {candidate.xyxy.x, candidate.xyxy.y, candidate.xyxy.z, candidate.xyxy.w};
  return IouExceeds(a, kept.area, b, candidate.area, limit);
}

// Which of a group's 32 candidates, best first, are kept; the same for all lanes of the warp, which
// all come. alive: those that no earlier group's kept box suppresses. suppressors, of the lane's
// candidate: the candidates of the group before it that suppress it if they are kept.
//
// Kept is who is alive and has no kept suppressor. Since suppressors come before, there is one such
// set; what does not change under this rule is it, and after n steps the first n are settled.
__device__ inline uint32_t SettleGroup(uint32_t alive, uint32_t suppressors) {
  const uint32_t lane = threadIdx.x % 32;
  uint32_t kept = alive;
  for (;;) {
    const bool stays = (alive >> lane & 1U) != 0 && (suppressors & kept) == 0;
    const uint32_t next = __ballot_sync(0xFFFFFFFFU, stays);
    if (next == kept) return kept;
    kept = next;
  }
}

// The first of the groups after `group` that has a candidate alive; 32 where there is none.
__device__ inline uint32_t NextGroup(const uint32_t* alive_words, int group) {
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const uint32_t groups = __ballot_sync(0xFFFFFFFFU, lane > group && alive_words[lane] != 0);
  return groups == 0 ? 32 : static_cast<uint32_t>(__ffs(static_cast<int>(groups)) - 1);
}

// The first `room` of the bits.
__device__ inline uint32_t FirstBits(uint32_t bits, uint32_t room) {
  while (static_cast<uint32_t>(__popc(bits)) > room) {
    bits &= ~(1U << (31 - __clz(static_cast<int>(bits))));
  }
  return bits;
}

}  // namespace endcap
