#include "common/score_order.h"
#include "cuda_runtime/launch.h"
#include "nms/cuda/key_sort.h"
#include "nms/cuda/launch.h"
#include "nms/cuda/suppression.cuh"

// Greedy NMS in chunks of 1024 boxes, best first. Overlaps within chunks are found for all chunks
// at once. Then, chunk after chunk, one block settles which boxes of the chunk are kept, and many
// blocks compare the kept ones with all later boxes.

namespace endcap {
namespace {

constexpr uint32_t kThreads = 256;
constexpr uint32_t kNmsChunk = 1024;

// State that the kernels pass on from chunk to chunk.
struct NmsProgress {
  unsigned long long kept;
  uint32_t chunk_kept;  // boxes in NmsArrays::chunk_kept, of the last chunk
  uint32_t has_nan;
};

struct NmsArrays {
  uint64_t* keys;         // [count]
  uint64_t* sorted_keys;  // [count]
  NmsBox* boxes;          // [count], best first
  uint32_t* overlaps;     // [chunks][32][kNmsChunk]: a bit for each box of a group of the chunk,
                          // set if it would suppress the box of the chunk
  uint8_t* suppressed;    // [count], best first
  NmsBox* chunk_kept;     // [kNmsChunk]
  NmsProgress* progress;  // [1]
};

__device__ int64_t GlobalThread() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

__global__ void __launch_bounds__(kThreads)
    OrderBoxes(const NmsLaunch launch, const NmsArrays arrays) {
  const int64_t i = GlobalThread();
  if (i >= launch.count) return;
  const uint32_t from = KeyPosition(arrays.sorted_keys[i]);
  const float score = launch.scores[from];
  if (score != score) atomicMax(&arrays.progress->has_nan, 1U);
  const float* box = launch.boxes_xyxy + 4 * size_t{from};
  arrays.boxes[i] = MakeNmsBox(make_float4(box[0], box[1], box[2], box[3]),
                               launch.class_ids == nullptr ? 0 : launch.class_ids[from]);
  arrays.suppressed[i] = 0;
}

// Block (c, g): which of the 32 boxes of group g of chunk c suppress each box of the chunk that
// comes after them.
__global__ void __launch_bounds__(kNmsChunk)
    FindOverlaps(const NmsLaunch launch, const NmsArrays arrays) {
  __shared__ NmsBox others[32];
  const uint32_t t = threadIdx.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kNmsChunk;
  const int64_t group = first + 32 * blockIdx.y;
  if (t < 32 && group + t < launch.count) others[t] = arrays.boxes[group + t];
  __syncthreads();
  uint32_t suppressors = 0;
  const int64_t own = first + t;
  if (own < launch.count && own > group) {
    const NmsBox box = arrays.boxes[own];
    const auto before = static_cast<uint32_t>(own - group < 32 ? own - group : 32);
    for (uint32_t i = 0; i < before; ++i) {
      if (Suppresses(others[i], box, launch.iou_limit)) suppressors |= 1U << i;
    }
  }
  arrays.overlaps[(size_t{blockIdx.x} * 32 + blockIdx.y) * kNmsChunk + t] = suppressors;
}

// Writes the kept boxes of a chunk: words[g] has a bit for each box of group g. By the whole block.
__device__ void WriteKept(const NmsLaunch& launch, const NmsArrays& arrays, uint32_t chunk,
                          const uint32_t* words) {
  const uint32_t t = threadIdx.x;
  const unsigned long long before_chunk = arrays.progress->kept;
  const auto room = static_cast<unsigned long long>(launch.max_detections) - before_chunk;
  const BlockSum place = CountBits(words);
  if ((words[t / 32] >> (t % 32) & 1U) != 0 && place.before < room) {
    const size_t own = size_t{chunk} * kNmsChunk + t;
    launch.kept[before_chunk + place.before] = KeyPosition(arrays.sorted_keys[own]);
    arrays.chunk_kept[place.before] = arrays.boxes[own];
  }
  __syncthreads();  // all have read the progress
  if (t != 0) return;
  const auto kept = static_cast<uint32_t>(place.total < room ? place.total : room);
  arrays.progress->kept = before_chunk + kept;
  arrays.progress->chunk_kept = kept;
}

__global__ void __launch_bounds__(kNmsChunk)
    ResolveChunk(const NmsLaunch launch, const NmsArrays arrays, uint32_t chunk) {
  __shared__ uint32_t kept[32];
  if (arrays.progress->kept >= static_cast<unsigned long long>(launch.max_detections)) return;
  const uint32_t t = threadIdx.x;
  const int64_t own = static_cast<int64_t>(chunk) * kNmsChunk + t;
  bool alive = own < launch.count && arrays.suppressed[own] == 0;
  const uint32_t* overlaps = arrays.overlaps + size_t{chunk} * 32 * kNmsChunk + t;
  for (uint32_t group = 0; group < 32; ++group) {
    const uint32_t suppressors = overlaps[group * kNmsChunk];
    if (t / 32 == group) {
      const uint32_t settled = ResolveGroup(__ballot_sync(0xFFFFFFFFU, alive), suppressors);
      if (t % 32 == 0) kept[group] = settled;
    }
    __syncthreads();
    alive = alive && (suppressors & kept[group]) == 0;
  }
  WriteKept(launch, arrays, chunk, kept);
}

// The boxes from `first` on, against those that the last chunk kept.
__global__ void __launch_bounds__(kThreads)
    SuppressLater(const NmsLaunch launch, const NmsArrays arrays, int64_t first) {
  __shared__ NmsBox others[kThreads];
  if (arrays.progress->kept >= static_cast<unsigned long long>(launch.max_detections)) return;
  const uint32_t kept = arrays.progress->chunk_kept;
  const int64_t own = first + GlobalThread();
  bool alive = own < launch.count && arrays.suppressed[own] == 0;
  NmsBox box = {};
  if (alive) box = arrays.boxes[own];
  const bool was_alive = alive;
  for (uint32_t tile = 0; tile < kept; tile += kThreads) {
    if (__syncthreads_or(alive) == 0) break;
    const uint32_t size = min(kThreads, kept - tile);
    if (threadIdx.x < size) others[threadIdx.x] = arrays.chunk_kept[tile + threadIdx.x];
    __syncthreads();
    for (uint32_t i = 0; i < size && alive; ++i) {
      alive = !Suppresses(others[i], box, launch.iou_limit);
    }
  }
  if (was_alive && !alive) arrays.suppressed[own] = 1;
}

__global__ void WriteCount(const NmsLaunch launch, const NmsArrays arrays) {
  const NmsProgress progress = *arrays.progress;
  *launch.kept_count = progress.has_nan != 0 ? -1 : static_cast<int64_t>(progress.kept);
}

uint32_t BlocksFor(int64_t boxes, uint32_t per_block) {
  return static_cast<uint32_t>((boxes + per_block - 1) / per_block);
}

}  // namespace

void LaunchNms(const NmsLaunch& launch, void* stream) {
  auto* cuda_stream = static_cast<cudaStream_t>(stream);
  if (launch.count == 0) {
    Check(cudaMemsetAsync(launch.kept_count, 0, sizeof(int64_t), cuda_stream), "cudaMemsetAsync");
    return;
  }
  const auto count = static_cast<size_t>(launch.count);
  const uint32_t blocks = BlocksFor(launch.count, kThreads);
  const uint32_t chunks = BlocksFor(launch.count, kNmsChunk);
  const size_t sort_bytes = SortScratchBytes(launch.count);
  NmsArrays arrays = {};
  uint8_t* sort = nullptr;
  const StreamScratch memory(cuda_stream, [&](StreamScratch& scratch) {
    scratch.Place(arrays.keys, count);
    scratch.Place(arrays.sorted_keys, count);
    scratch.Place(arrays.boxes, count);
    scratch.Place(arrays.overlaps, size_t{chunks} * 32 * kNmsChunk);
    scratch.Place(arrays.suppressed, count);
    scratch.Place(arrays.chunk_kept, size_t{kNmsChunk});
    scratch.Place(arrays.progress, size_t{1});
    scratch.Place(sort, sort_bytes);
  });
  Check(cudaMemsetAsync(arrays.progress, 0, sizeof(NmsProgress), cuda_stream), "cudaMemsetAsync");
  MakeScoreKeys(launch.scores, arrays.keys, launch.count, cuda_stream);
  SortScoreKeys(arrays.keys, arrays.sorted_keys, launch.count, sort, sort_bytes, cuda_stream);
  Launch(OrderBoxes, blocks, kThreads, 0, cuda_stream, launch, arrays);
  Launch(FindOverlaps, dim3(chunks, 32), kNmsChunk, 0, cuda_stream, launch, arrays);
  for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
    Launch(ResolveChunk, 1, kNmsChunk, 0, cuda_stream, launch, arrays, chunk);
    const int64_t later = (int64_t{chunk} + 1) * kNmsChunk;
    if (later >= launch.count) break;
    Launch(SuppressLater, BlocksFor(launch.count - later, kThreads), kThreads, 0, cuda_stream,
           launch, arrays, later);
  }
  Launch(WriteCount, 1, 1, 0, cuda_stream, launch, arrays);
}

}  // namespace endcap
