#pragma once

#include "nms/cuda/suppression.cuh"
#include "postprocess/detection_rows_cuda.h"

// Suppression within one image: chunk after chunk, by one block of kChunk threads.

namespace endcap {

static_assert(sizeof(NmsBox) == kKeptBytes);
static_assert(kChunk == 32 * 32);

struct ChunkBoxes {
  float4 xyxy[kChunk];
  float areas[kChunk];
  int32_t classes[kChunk];
  uint32_t alive[32];        // a bit for each candidate
  uint32_t suppressors[32];  // of the group in hand, see SettleGroup

  __device__ NmsBox At(uint32_t i) const { return {xyxy[i], areas[i], classes[i]}; }
  __device__ void Set(uint32_t i, const NmsBox& box) {
    xyxy[i] = box.xyxy;
    areas[i] = box.area;
    classes[i] = box.class_id;
  }
};

// Which of the group's candidates suppress the thread's warp's one, candidate number `warp`.
__device__ inline uint32_t FindSuppressors(const ChunkBoxes& boxes, uint32_t group, float limit) {
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t warp = threadIdx.x / 32;
  const uint32_t alive = boxes.alive[group];
  const bool both = lane < warp && (alive >> lane & 1U) != 0 && (alive >> warp & 1U) != 0;
  const bool hit =
      both && Suppresses(boxes.At(32 * group + lane), boxes.At(32 * group + warp), limit);
  return __ballot_sync(0xFFFFFFFFU, hit);
}

// Takes the first `size` keys of the chunk, and writes the rows that are kept, from `rows` on.
// Returns how many rows there are then. Every thread comes.
__device__ inline uint32_t SuppressChunk(const HeadRule& rule, const HeadImage& head,
                                         const DetectionBatch& batch, uint32_t image,
                                         const KeyChunk<kChunk>& chunk, uint32_t size,
                                         uint32_t rows, ChunkBoxes& boxes) {
  const uint32_t t = threadIdx.x;
  const uint32_t warp = t / 32;
  auto* kept_boxes = static_cast<NmsBox*>(batch.kept) + size_t{image} * batch.kept_capacity;
  uint32_t* kept_anchors = batch.kept_anchors + size_t{image} * batch.kept_capacity;
  Candidate candidate = {};
  NmsBox box = {};
  bool alive = t < size;
  if (alive) {
    candidate = ReadCandidate(rule, head, chunk.keys[t]);
    const BoxXyxy& corners = candidate.box;
    box = MakeNmsBox(make_float4(corners.x1, corners.y1, corners.x2, corners.y2),
                     batch.class_agnostic != 0 ? 0 : candidate.class_id);
    boxes.Set(t, box);
  }
  for (uint32_t k = 0; k < rows && alive; ++k) {
    alive = !Suppresses(kept_boxes[k], box, batch.iou_limit);
  }
  int group = -1;
  for (;;) {
    const uint32_t alive_in_warp = __ballot_sync(0xFFFFFFFFU, alive);
    if (t % 32 == 0) boxes.alive[warp] = alive_in_warp;
    __syncthreads();
    group = static_cast<int>(NextGroup(boxes.alive, group));
    if (group == 32 || rows == batch.max_rows) break;
    const auto first = static_cast<uint32_t>(32 * group);
    const uint32_t alive_in_group = boxes.alive[group];
    const uint32_t suppressors =
        FindSuppressors(boxes, static_cast<uint32_t>(group), batch.iou_limit);
    if (t % 32 == 0) boxes.suppressors[warp] = suppressors;
    __syncthreads();
    uint32_t kept = SettleGroup(alive_in_group, boxes.suppressors[t % 32]);
    kept = FirstBits(kept, batch.max_rows - rows);
    if (warp == static_cast<uint32_t>(group) && (kept >> (t % 32) & 1U) != 0) {
      const uint32_t row = rows + __popc(kept & ((1U << (t % 32)) - 1U));
      kept_boxes[row] = box;
      kept_anchors[row] = static_cast<uint32_t>(candidate.index);
      WriteRow(batch.images[image], row, candidate);
    }
    rows += __popc(kept);
    alive = alive && t >= first + 32;
    for (uint32_t rest = kept; rest != 0 && alive; rest &= rest - 1) {
      const uint32_t bit = __ffs(static_cast<int>(rest)) - 1U;
      alive = !Suppresses(boxes.At(first + bit), box, batch.iou_limit);
    }
  }
  return rows;
}

}  // namespace endcap
