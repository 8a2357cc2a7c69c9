#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "nms/cuda/key_chunks.cuh"
#include "nms/cuda/rotated_launch.h"
#include "nms/iou.h"

namespace endcap {

// Greedy suppression inside one block of 32 warps; groups of 32 candidates are settled at once.
// First what axis-aligned and rotated boxes share, then RotatedSuppression.

struct NmsBox {
  float4 xyxy;
  float area;
  int32_t class_id;
};

__device__ inline NmsBox MakeNmsBox(const float4& xyxy, int32_t class_id) {
  const float numbers[4] = {xyxy.x, xyxy.y, xyxy.z, xyxy.w};
  return {xyxy, BoxArea(numbers), class_id};
}

// Whether the kept box suppresses the candidate. limit: GreatestFloatAtMost of the IoU threshold.
__device__ inline bool Suppresses(const NmsBox& kept, const NmsBox& candidate, float limit) {
  if (kept.class_id != candidate.class_id) return false;
  const float a[4] = {kept.xyxy.x, kept.xyxy.y, kept.xyxy.z, kept.xyxy.w};
  const float b[4] = {candidate.xyxy.x, candidate.xyxy.y, candidate.xyxy.z, candidate.xyxy.w};
  return IouExceeds(a, kept.area, b, candidate.area, limit);
}

// The lanes whose `other_class` is the lane's class, for a lane that is alive. All lanes come.
__device__ inline uint32_t FindSameClass(bool alive, int32_t class_id, int32_t other_class) {
  uint32_t same = 0;
  for (uint32_t left = __ballot_sync(0xFFFFFFFFU, alive); left != 0;) {
    const int32_t one = __shfl_sync(0xFFFFFFFFU, class_id, __ffs(static_cast<int>(left)) - 1);
    const uint32_t others = __ballot_sync(0xFFFFFFFFU, other_class == one);
    if (class_id == one) same = others;
    left &= ~__ballot_sync(0xFFFFFFFFU, class_id == one);
  }
  return same;
}

// Returns which of a group's 32 candidates, best first, are kept; the same for all lanes of the
// warp, all of which must call it. alive: the candidates that no kept box of an earlier group
// suppresses. suppressors, of the lane's candidate: the earlier candidates of the group that
// suppress it if they are kept.
//
// A candidate is kept if it is alive and has no kept suppressor. Suppressors precede it, so there
// is exactly one such set, the fixed point of this rule; after n steps the first n are final.
__device__ inline uint32_t ResolveGroup(uint32_t alive, uint32_t suppressors) {
  const uint32_t lane = threadIdx.x % 32;
  uint32_t kept = alive;
  for (;;) {
    const bool stays = (alive >> lane & 1U) != 0 && (suppressors & kept) == 0;
    const uint32_t next = __ballot_sync(0xFFFFFFFFU, stays);
    if (next == kept) return kept;
    kept = next;
  }
}

// The first group after `group` with a candidate that is alive; 32 if there is none.
__device__ inline uint32_t NextGroup(const uint32_t* alive_words, int group) {
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const uint32_t groups = __ballot_sync(0xFFFFFFFFU, lane > group && alive_words[lane] != 0);
  return groups == 0 ? 32 : static_cast<uint32_t>(__ffs(static_cast<int>(groups)) - 1);
}

// The lowest `count` of the set bits.
__device__ inline uint32_t FirstBits(uint32_t bits, uint32_t count) {
  while (static_cast<uint32_t>(__popc(bits)) > count) {
    bits &= ~(1U << (31 - __clz(static_cast<int>(bits))));
  }
  return bits;
}

// The set bits of 32 words, one for each thread of a block: before the thread's, and all.
__device__ inline BlockSum CountBits(const uint32_t* words) {
  const uint32_t own = threadIdx.x / 32;
  BlockSum bits = {static_cast<uint32_t>(__popc(words[own] & ((1U << (threadIdx.x % 32)) - 1U))),
                   0};
  for (uint32_t word = 0; word < 32; ++word) {
    const uint32_t in_word = __popc(words[word]);
    if (word < own) bits.before += in_word;
    bits.total += in_word;
  }
  return bits;
}

// Suppression of rotated boxes within one image: chunk after chunk, by one block of kRotatedChunk
// threads. Each thread compares the bounds of its candidate; the few pairs that remain are
// expensive to compare and are distributed over the block. Every thread of the block must call
// every function unless stated otherwise.

inline constexpr uint32_t kNoSuppressor = 0xFFFFFFFFU;
inline constexpr int32_t kNoClass = -1;  // of a box that counts for nothing

// In shared memory.
struct RotatedChunk {
  SuppressorBounds bounds[kRotatedChunk];
  uint32_t alive[32];        // a bit for each candidate; unused words are 0
  uint32_t suppressors[32];  // of the current group, see ResolveGroup
  uint32_t pairs[2];         // in the queue; the two alternate, and the one not in use is 0
};
using RotatedKeyChunk = KeyChunk<kRotatedChunk>;
static_assert(RotatedKeyChunk::kBuckets == 2 * kRotatedChunk,
              "the buckets hold a pair of each candidate");

template <typename Comparison>
class RotatedSuppression {
 public:
  using Method = typename Comparison::Method;
  using Box = typename Comparison::Box;

  // scratch: RotatedScratchBytes of device memory.
  __device__ RotatedSuppression(const Comparison& comparison, const RotatedScratchSize& size,
                                void* scratch, RotatedChunk& shared, RotatedKeyChunk& chunk)
      : comparison_(comparison),
        shared_(shared),
        chunk_(chunk),
        chunk_boxes_at_(size.suppressors),
        boxes_(static_cast<Box*>(scratch)),
        kept_keys_(reinterpret_cast<uint64_t*>(boxes_ + size.suppressors + kRotatedChunk)),
        suppressors_(reinterpret_cast<SuppressorBounds*>(kept_keys_ + size.rows)) {
    if (threadIdx.x < 2) shared_.pairs[threadIdx.x] = 0;
  }

  __device__ uint32_t rows() const { return rows_; }
  __device__ const uint64_t* kept_keys() const { return kept_keys_; }  // [rows]

  // Prepares the thread's box of the chunk. Called by the threads that have one.
  __device__ void SetBox(const float* xywhr, int32_t class_id) {
    const Box box = Method::Prepare(xywhr);
    SuppressorBounds bounds = {comparison_.bounds.Of(xywhr, box), class_id};
    if (!Method::Overlaps(box)) {
      bounds.place.known = true;
      bounds.place.reach_x = -INFINITY;
    }
    boxes_[chunk_boxes_at_ + threadIdx.x] = box;
    shared_.bounds[threadIdx.x] = bounds;
  }

  // Processes a chunk, of which the thread's box counts or not; only kept boxes suppress. Keeps at
  // most max_rows.
  __device__ void SuppressGreedily(uint32_t max_rows, bool counts) {
    const uint32_t t = threadIdx.x;
    const uint32_t warp = t / 32;
    bool alive = counts;
    StartChunk(counts);
    const SuppressorBounds& own = shared_.bounds[t];
    uint32_t next = 0;
    alive = SurvivesAll(alive, [&] {
      while (next < rows_ && !IsNear(suppressors_[next], own)) ++next;
      return next < rows_ ? next++ : kNoSuppressor;
    });
    int group = -1;
    for (;;) {
      group = static_cast<int>(NextGroup(shared_.alive, group));
      if (group == 32 || rows_ == max_rows) break;
      const auto first = static_cast<uint32_t>(32 * group);
      const uint32_t alive_in_group = shared_.alive[group];
      FindSuppressors(first, alive_in_group);
      __syncthreads();
      uint32_t kept = ResolveGroup(alive_in_group, shared_.suppressors[t % 32]);
      kept = FirstBits(kept, max_rows - rows_);
      if (warp == static_cast<uint32_t>(group) && (kept >> (t % 32) & 1U) != 0) {
        const uint32_t row = rows_ + __popc(kept & ((1U << (t % 32)) - 1U));
        kept_keys_[row] = chunk_.keys[t];
        AddSuppressor(row);
      }
      rows_ += __popc(kept);
      alive = alive && t >= first + 32;
      alive = SurvivesAll(alive, [&] {
        while (kept != 0) {
          const uint32_t suppressor =
              first + static_cast<uint32_t>(__ffs(static_cast<int>(kept))) - 1U;
          kept &= kept - 1;
          if (IsNear(shared_.bounds[suppressor], own)) return chunk_boxes_at_ + suppressor;
        }
        return kNoSuppressor;
      });
    }
    __syncthreads();  // the chunk is done with
  }

  // The same, but every better box that counts suppresses, kept or not. size: boxes of the chunk,
  // of which those that do not count have kNoClass.
  __device__ void SuppressByAll(uint32_t size, uint32_t max_rows, bool counts) {
    const uint32_t t = threadIdx.x;
    StartChunk(counts);
    const SuppressorBounds& own = shared_.bounds[t];
    uint32_t next = 0;
    const bool alive = SurvivesAll(counts, [&] {
      for (; next < taken_; ++next) {
        if (IsNear(suppressors_[next], own)) return next++;
      }
      for (; next < taken_ + t; ++next) {
        const uint32_t before = next - taken_;
        if (IsNear(shared_.bounds[before], own)) {
          ++next;
          return chunk_boxes_at_ + before;
        }
      }
      return kNoSuppressor;
    });
    const BlockSum place = CountBits(shared_.alive);
    const uint32_t row = rows_ + place.before;
    rows_ = min(rows_ + place.total, max_rows);
    if (alive && row < max_rows) kept_keys_[row] = chunk_.keys[t];
    if (t < size) AddSuppressor(taken_ + t);
    taken_ += size;
    __syncthreads();  // the chunk is done with
  }

 private:
  static constexpr uint32_t kWarps = kRotatedChunk / 32;

  __device__ void StartChunk(bool counts) {
    const uint32_t alive_in_warp = __ballot_sync(0xFFFFFFFFU, counts);
    if (threadIdx.x % 32 == 0) shared_.alive[threadIdx.x / 32] = alive_in_warp;
    if (threadIdx.x < 32 && threadIdx.x >= kWarps) shared_.alive[threadIdx.x] = 0;
    __syncthreads();
  }

  __device__ bool IsNear(const SuppressorBounds& suppressor, const SuppressorBounds& own) const {
    if (suppressor.class_id != own.class_id) return false;
    if (!suppressor.place.known || !own.place.known) return true;
    return comparison_.bounds.MayExceed(suppressor.place, own.place);
  }

  __device__ bool Exceeds(uint32_t suppressor, uint32_t candidate) const {
    return Method::Exceeds(boxes_[suppressor], boxes_[chunk_boxes_at_ + candidate],
                           comparison_.limit);
  }

  // Adds the thread's box of the chunk to those that candidates of later chunks are compared with.
  // Called by one thread for each.
  __device__ void AddSuppressor(uint32_t at) {
    boxes_[at] = boxes_[chunk_boxes_at_ + threadIdx.x];
    suppressors_[at] = shared_.bounds[threadIdx.x];
  }

  // Finds which of the 32 candidates from `first` on suppress which, one candidate per warp at a
  // time.
  __device__ void FindSuppressors(uint32_t first, uint32_t alive_in_group) {
    const uint32_t lane = threadIdx.x % 32;
    for (uint32_t own = threadIdx.x / 32; own < 32; own += kWarps) {
      const uint32_t both = alive_in_group >> lane & alive_in_group >> own & 1U;
      const bool hit = both != 0 && lane < own &&
                       IsNear(shared_.bounds[first + lane], shared_.bounds[first + own]) &&
                       Exceeds(chunk_boxes_at_ + first + lane, first + own);
      const uint32_t suppressors = __ballot_sync(0xFFFFFFFFU, hit);
      if (lane == 0) shared_.suppressors[own] = suppressors;
    }
  }

  // Returns whether the thread's candidate is alive and none of its possible suppressors suppresses
  // it; updates shared_.alive. next_suppressor() returns the next of them as an index into boxes_,
  // and kNoSuppressor after the last. Each round compares one suppressor of every candidate.
  template <typename NextSuppressor>
  __device__ bool SurvivesAll(bool alive, NextSuppressor next_suppressor) {
    const uint32_t t = threadIdx.x;
    uint32_t* candidates = chunk_.buckets;
    uint32_t* suppressors = chunk_.buckets + kRotatedChunk;
    for (;;) {
      const uint32_t suppressor = alive ? next_suppressor() : kNoSuppressor;
      const uint32_t lanes = __ballot_sync(0xFFFFFFFFU, suppressor != kNoSuppressor);
      uint32_t place = 0;
      if (t % 32 == 0 && lanes != 0) place = atomicAdd(&shared_.pairs[turn_], __popc(lanes));
      place = __shfl_sync(0xFFFFFFFFU, place, 0) + __popc(lanes & ((1U << (t % 32)) - 1U));
      if (suppressor != kNoSuppressor) {
        candidates[place] = t;
        suppressors[place] = suppressor;
      }
      __syncthreads();
      const uint32_t pairs = shared_.pairs[turn_];
      if (t == 0) shared_.pairs[turn_ ^ 1U] = 0;
      if (pairs == 0) return alive;
      turn_ ^= 1U;
      if (t < pairs && Exceeds(suppressors[t], candidates[t])) {
        atomicAnd(&shared_.alive[candidates[t] / 32], ~(1U << (candidates[t] % 32)));
      }
      __syncthreads();
      alive = alive && (shared_.alive[t / 32] >> (t % 32) & 1U) != 0;
    }
  }

  const Comparison& comparison_;
  RotatedChunk& shared_;
  RotatedKeyChunk& chunk_;  // its buckets are the queue of pairs
  uint32_t chunk_boxes_at_;
  Box* boxes_;                     // [suppressors], and from chunk_boxes_at_ on the chunk's
  uint64_t* kept_keys_;            // [rows]
  SuppressorBounds* suppressors_;  // [suppressors]
  uint32_t rows_ = 0;              // kept
  uint32_t taken_ = 0;             // boxes of the chunks before; SuppressByAll
  uint32_t turn_ = 0;
};

}  // namespace endcap
