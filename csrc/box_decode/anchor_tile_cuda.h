#pragma once

#include <bit>

#include "box_decode/candidate_keys_cuda.h"
#include "common/cuda_tuning.h"

// How a block reads a tile of a yolov8 head [4+C, A]: neighbouring anchors, every row. The block's
// warps take rows in turn; each lane takes 16 bytes of a row.

namespace endcap {

inline constexpr uint32_t kTileThreads = 32 * kTileWarps;

template <typename T>
inline constexpr uint32_t kLaneAnchors = 16 / sizeof(T);
template <typename T>
inline constexpr uint32_t kTileAnchors = 32 * kLaneAnchors<T>;
static_assert(kTileAnchors<uint16_t> <= kTileThreads);  // a thread for each anchor

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

  // Of an aligned tile, the lane's 16 bytes of a row; those of the first lane beyond the last
  // anchor.
  __device__ uint4 Load(uint32_t row) const {
    return __ldg(reinterpret_cast<const uint4*>(Row(row) + (Holds(Place(0)) ? Place(0) : 0)));
  }
  __device__ static void Unpack(const uint4& raw, float (&values)[kLaneAnchors<T>]) {
    struct Lane {
      T values[kLaneAnchors<T>];
    };
    const auto lane = std::bit_cast<Lane>(raw);
#pragma unroll
    for (uint32_t k = 0; k < kLaneAnchors<T>; ++k) values[k] = ToFloat(lane.values[k]);
  }

  // The lane's values of a row; 0 beyond the last anchor.
  __device__ void Read(uint32_t row, float (&values)[kLaneAnchors<T>]) const {
    const T* from = Row(row);
    if (aligned) {
      Unpack(Holds(Place(0)) ? Load(row) : make_uint4(0, 0, 0, 0), values);
    } else {
#pragma unroll
      for (uint32_t k = 0; k < kLaneAnchors<T>; ++k) {
        values[k] = Holds(Place(k)) ? ToFloat(from[Place(k)]) : 0.0F;
      }
    }
  }

  // Four rows of boxes, for one anchor.
  __device__ BoxXyxy ReadBox(uint32_t place) const {
    return {ToFloat(Row(0)[place]), ToFloat(Row(1)[place]), ToFloat(Row(2)[place]),
            ToFloat(Row(3)[place])};
  }

  // Notes the first NaN of the tile, in any row. For when there is one. All threads come.
  __device__ void NoteNan(uint32_t rows) const {
    for (uint32_t row = threadIdx.x / 32; row < rows; row += kTileWarps) {
      float values[kLaneAnchors<T>];
      Read(row, values);
      for (uint32_t k = 0; k < kLaneAnchors<T>; ++k) {
        if (IsNan(values[k])) NoteFirst(&state->nan[0], row * anchors + first + Place(k));
      }
    }
  }
};

}  // namespace endcap
