#include "box_decode/cuda/filters.h"
#include "cuda_runtime/launch.h"
#include "nms/cuda/suppression.cuh"
#include "postprocess/cuda/detection_launch.h"
#include "postprocess/cuda/detection_rows.cuh"
#include "postprocess/cuda/kernels.h"

namespace endcap {
namespace {

// Suppression within one image: chunk after chunk, by one block of kChunk threads.

static_assert(sizeof(NmsBox) == kKeptBytes);
static_assert(kChunk == 32 * 32);

struct ChunkBoxes {
  float4 xyxy[kChunk];
  float areas[kChunk];
  int32_t classes[kChunk];
  uint32_t kept[32];  // a bit for each candidate of a group of 32

  __device__ NmsBox At(uint32_t i) const { return {xyxy[i], areas[i], classes[i]}; }
  __device__ void Set(uint32_t i, const NmsBox& box) {
    xyxy[i] = box.xyxy;
    areas[i] = box.area;
    classes[i] = box.class_id;
  }
};

// Whether the lane's box is alive and none of 32 others suppresses it that are in `others`.
// box_at(i): the one of bit i. All lanes come.
template <typename BoxAt>
__device__ bool Survives(bool alive, const NmsBox& box, uint32_t others, float limit,
                         const BoxAt& box_at) {
  const uint32_t lane = threadIdx.x % 32;
  const int32_t other_class = (others >> lane & 1U) != 0 ? box_at(lane).class_id : 0;
  uint32_t rest = others & FindSameClass(alive, box.class_id, other_class);
  for (; rest != 0 && alive; rest &= rest - 1) {
    alive = !Suppresses(box_at(__ffs(static_cast<int>(rest)) - 1U), box, limit);
  }
  return alive;
}

__device__ NmsBox MakeBox(const DetectionBatch& batch, const Candidate& candidate) {
  const BoxXyxy& box = candidate.box;
  return MakeNmsBox(make_float4(box.x1, box.y1, box.x2, box.y2),
                    batch.class_agnostic != 0 ? 0 : candidate.class_id);
}

// Writes a row, and keeps its box where later chunks, keypoints or masks need it. By one thread.
__device__ void WriteRow(const DetectionBatch& batch, uint32_t image, uint32_t row,
                         const Candidate& candidate) {
  WriteRow(batch.images[image], row, candidate);
  if (batch.kept_capacity == 0) return;
  const size_t kept = size_t{image} * batch.kept_capacity + row;
  static_cast<NmsBox*>(batch.kept)[kept] = MakeBox(batch, candidate);
  batch.kept_anchors[kept] = static_cast<uint32_t>(candidate.index);
}

// Takes the first `size` keys of the chunk, and writes the rows that are kept, from `rows` on.
// Returns how many rows there are then. Every thread comes.
__device__ uint32_t SuppressChunk(const HeadRule& rule, const HeadImage& head,
                                  const DetectionBatch& batch, uint32_t image,
                                  const KeyChunk<kChunk>& chunk, uint32_t size, uint32_t rows,
                                  ChunkBoxes& boxes) {
  const uint32_t t = threadIdx.x;
  const uint32_t warp = t / 32;
  const uint32_t before_lane = (1U << (t % 32)) - 1U;
  const auto* kept_boxes =
      static_cast<const NmsBox*>(batch.kept) + size_t{image} * batch.kept_capacity;
  Candidate candidate = {};
  NmsBox box = {};
  bool alive = t < size;
  if (alive) {
    candidate = ReadCandidate(rule, head, chunk.keys[t]);
    alive = HasArea(batch.images[image], candidate.box);
    box = MakeBox(batch, candidate);
  }
  boxes.Set(t, box);
  for (uint32_t first = 0; first < rows; first += 32) {
    const uint32_t others = rows - first < 32 ? (1U << (rows - first)) - 1U : ~0U;
    alive = Survives(alive, box, others, batch.iou_limit,
                     [&](uint32_t i) { return kept_boxes[first + i]; });
  }
  __syncwarp();
  uint32_t suppressors = 0;  // of the warp's own group, see ResolveGroup
  const uint32_t alive_in_warp = __ballot_sync(kAllLanes, alive);
  uint32_t rest = FindSameClass(alive, box.class_id, box.class_id) & alive_in_warp & before_lane;
  for (; rest != 0; rest &= rest - 1) {
    const uint32_t other = __ffs(static_cast<int>(rest)) - 1U;
    if (Suppresses(boxes.At(32 * warp + other), box, batch.iou_limit)) suppressors |= 1U << other;
  }
  uint32_t row = kNoRows;
  for (uint32_t group = 0; 32 * group < size && rows < batch.max_rows; ++group) {
    if (warp == group) {
      uint32_t kept = ResolveGroup(__ballot_sync(kAllLanes, alive), suppressors);
      kept = FirstBits(kept, batch.max_rows - rows);
      if (t % 32 == 0) boxes.kept[group] = kept;
      if ((kept >> (t % 32) & 1U) != 0) row = rows + __popc(kept & before_lane);
    }
    __syncthreads();
    const uint32_t kept = boxes.kept[group];
    rows += __popc(kept);
    if (warp <= group) continue;
    alive = Survives(alive, box, kept, batch.iou_limit,
                     [&](uint32_t i) { return boxes.At(32 * group + i); });
  }
  if (row != kNoRows) WriteRow(batch, image, row, candidate);
  return rows;
}

// Keypoints of one image, by the threads of its block.

struct KeypointSource {
  const KeypointValues& keypoints;
  const AnchorValues& values;
  const HeadImage& head;
  const uint32_t* anchors;  // of the rows

  __device__ uint64_t values_of_row() const { return uint64_t{keypoints.count} * keypoints.values; }
  // Number i of a detection's.
  __device__ float Value(uint32_t row, uint64_t i) const {
    return ReadValue(head, 0, values.At(head.rows, values.first_extra + i, anchors[row]));
  }
};

// The first number, row after row, that is not finite, into `first_bad`, which holds `none`.
__device__ void FindBadKeypoint(const KeypointSource& source, uint32_t rows,
                                unsigned long long* first_bad) {
  const uint64_t of_row = source.values_of_row();
  for (uint64_t i = threadIdx.x; i < rows * of_row; i += blockDim.x) {
    if (IsFinite(source.Value(static_cast<uint32_t>(i / of_row), i % of_row))) continue;
    atomicMin(first_bad, static_cast<unsigned long long>(i));
    return;
  }
}

__device__ DetectionRecord KeypointFault(const KeypointSource& source, uint64_t first_bad) {
  const auto row = static_cast<uint32_t>(first_bad / source.values_of_row());
  const uint64_t value = first_bad % source.values_of_row();
  return Fault(DetectionFault::kExtraNotFinite, source.anchors[row], source.Value(row, value),
               static_cast<double>(source.values.first_extra + value));
}

__device__ void WriteKeypointRows(const KeypointSource& source, const DetectionImage& image,
                                  uint32_t rows) {
  const bool mapped = HasGeometry(image);
  const Geometry geometry = mapped ? ReadGeometry(image) : Geometry{};
  const KeypointValues& keypoints = source.keypoints;
  const uint64_t points = uint64_t{rows} * keypoints.count;
  for (uint64_t i = threadIdx.x; i < points; i += blockDim.x) {
    const auto row = static_cast<uint32_t>(i / keypoints.count);
    const uint64_t first = i % keypoints.count * keypoints.values;
    float values[3] = {};
    for (uint32_t v = 0; v < keypoints.values; ++v) values[v] = source.Value(row, first + v);
    MakeKeypoint(keypoints.rule, values, mapped ? &geometry : nullptr, image.extra + 3 * i);
  }
}

struct Shared {
  KeyChunk<kChunk> chunk;
  ChunkBoxes boxes;
  ImageFaults faults;
};

// Rows of a chunk that needs no suppression. Returns how many rows there are then.
__device__ uint32_t WriteChunk(const HeadBatch& heads, const DetectionBatch& batch, uint32_t image,
                               KeyChunk<kChunk>& chunk, uint32_t size, uint32_t rows) {
  const HeadImage& head = heads.images[image];
  const DetectionImage& target = batch.images[image];
  const bool classifies = heads.rule.layout == HeadLayout::kLogits;
  const uint64_t key = chunk.keys[threadIdx.x];
  bool is_row = threadIdx.x < size;
  Candidate candidate = {};
  if (is_row && !classifies) {
    candidate = ReadCandidate(heads.rule, head, key);
    is_row = HasArea(target, candidate.box);
  }
  const BlockSum place = SumInBlock(is_row ? 1U : 0U, chunk.warp_sums);
  const uint32_t row = rows + place.before;
  if (is_row && row < batch.max_rows) {
    if (classifies) {
      WriteClassRow(target, heads.rule, head, row, key);
    } else {
      WriteRow(batch, image, row, candidate);
    }
  }
  return min(rows + place.total, batch.max_rows);
}

__device__ uint32_t WriteRows(const HeadBatch& heads, const DetectionBatch& batch, uint32_t image,
                              const uint64_t* keys, uint32_t count, Shared& shared) {
  return ForEachChunk(batch, keys, count, shared.chunk, [&](uint32_t size, uint32_t rows) {
    return batch.needs_nms != 0 ? SuppressChunk(heads.rule, heads.images[image], batch, image,
                                                shared.chunk, size, rows, shared.boxes)
                                : WriteChunk(heads, batch, image, shared.chunk, size, rows);
  });
}

// The image's keypoints; or what makes its result an error, into faults.record: one that is not
// finite, or a coefficient of a mask.
__device__ void WriteImageKeypoints(const HeadBatch& heads, const DetectionBatch& batch,
                                    uint32_t image, uint32_t rows, ImageFaults& faults) {
  const DetectionImage& target = batch.images[image];
  const bool has_masks = target.masks != nullptr || target.run_lengths != nullptr;
  if (target.extra == nullptr && !has_masks) return;
  if (threadIdx.x == 0) faults.first_bad = kNoneBad;
  __syncthreads();  // after the rows' anchors, too
  const KeypointSource source = {batch.keypoints, heads.rule.values, heads.images[image],
                                 batch.kept_anchors + size_t{image} * batch.kept_capacity};
  FindBadKeypoint(source, rows, &faults.first_bad);
  __syncthreads();
  if (faults.first_bad != kNoneBad) {
    if (threadIdx.x == 0) faults.record = KeypointFault(source, faults.first_bad);
  } else if (target.extra != nullptr) {
    WriteKeypointRows(source, target, rows);
  }
  __syncthreads();
}

__global__ void __launch_bounds__(kChunk)
    WriteDetections(const __grid_constant__ HeadBatch heads,
                    const __grid_constant__ DetectionBatch batch) {
  __shared__ Shared shared;
  WriteImage(heads, batch, shared.faults, [&](const uint64_t* keys, uint32_t count) {
    const uint32_t rows = WriteRows(heads, batch, blockIdx.x, keys, count, shared);
    WriteImageKeypoints(heads, batch, blockIdx.x, rows, shared.faults);
    return rows;
  });
}

}  // namespace

void LaunchDetection(const DetectionLaunch& launch, void* stream) {
  auto* cuda_stream = static_cast<cudaStream_t>(stream);
  if (launch.heads.count == 0) return;
  if (launch.class_limits != nullptr) {
    LaunchStoreClassLimits(launch.heads, launch.class_limits, cuda_stream);
  }
  LaunchFilter(launch.heads, cuda_stream);
  if (launch.detections.rotated.is_there != 0) return LaunchRotatedRows(launch, cuda_stream);
  Launch(WriteDetections, static_cast<uint32_t>(launch.heads.count), kChunk, 0, cuda_stream,
         launch.heads, launch.detections);
  if (launch.masks.is_there != 0) LaunchMasks(launch, cuda_stream);
}

}  // namespace endcap
