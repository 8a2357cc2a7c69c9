#include "cuda_runtime/launch.h"
#include "nms/cuda/suppression.cuh"
#include "postprocess/cuda/detection_rows.cuh"
#include "postprocess/cuda/kernels.h"
#include "postprocess/map_extras.h"

namespace endcap {
namespace {

struct RotatedShared {
  RotatedKeyChunk chunk;
  RotatedChunk boxes;
  ImageFaults faults;
};

// One image's head.
struct RotatedHead {
  const HeadRule& rule;
  const HeadImage& image;

  __device__ uint32_t angle_value() const { return rule.values.first_extra; }
  __device__ float Value(uint32_t value, uint32_t anchor) const {
    return ReadValue(image, 0, rule.values.At(image.rows, value, anchor));
  }
  __device__ uint32_t GetAnchor(uint64_t key) const {
    const uint32_t position = KeyPosition(key);
    if (!PositionHoldsClass(rule.layout)) return position;
    return position / static_cast<uint32_t>(rule.num_classes);
  }
  __device__ float GetAngle(uint64_t key) const { return Value(angle_value(), GetAnchor(key)); }

  // xywhr [5] in pixels of the model's input.
  __device__ void ReadBox(uint64_t key, float* xywhr) const {
    const uint32_t anchor = GetAnchor(key);
    const bool normalized = rule.box_unit == BoxUnit::kNormalized;
    const float width = normalized ? rule.input_width : 1.0F;
    const float height = normalized ? rule.input_height : 1.0F;
    for (uint32_t i = 0; i < 4; ++i) xywhr[i] = Value(i, anchor) * (i % 2 == 0 ? width : height);
    xywhr[4] = Value(angle_value(), anchor);
  }
};

// Whether a box of ReadBox is a detection: any without a geometry, else one with an area.
__device__ bool HasRotatedArea(const DetectionImage& image, const float* xywhr) {
  return !HasGeometry(image) || (xywhr[2] > 0.0F && xywhr[3] > 0.0F);
}

// The best candidate's angle that is not finite, into faults.record.
__device__ void FindBadAngle(const RotatedHead& head, const DetectionBatch& batch,
                             const uint64_t* keys, uint32_t count, ImageFaults& faults) {
  if (threadIdx.x == 0) faults.first_bad = kNoneBad;
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < count; i += blockDim.x) {
    if (!IsFinite(head.GetAngle(keys[i]))) {
      atomicMin(&faults.first_bad, static_cast<unsigned long long>(keys[i]));
    }
  }
  __syncthreads();
  const uint64_t bad_key = faults.first_bad;
  if (bad_key == kNoneBad) return;
  if (IsCandidate(keys, count, bad_key, batch.max_candidates, faults) && threadIdx.x == 0) {
    faults.record = Fault(DetectionFault::kExtraNotFinite, head.GetAnchor(bad_key),
                          head.GetAngle(bad_key), head.angle_value());
  }
  __syncthreads();
}

template <typename Suppression>
__device__ void Suppress(const RotatedHead& head, const DetectionBatch& batch, const uint64_t* keys,
                         uint32_t count, RotatedKeyChunk& chunk, Suppression& suppression) {
  const bool by_all = batch.rotated.rule.method == RotatedNms::kProbiouFast;
  ForEachChunk(batch, keys, count, chunk, [&](uint32_t size, uint32_t /*rows*/) {
    bool counts = threadIdx.x < size;
    if (counts) {
      const uint64_t key = chunk.keys[threadIdx.x];
      const auto num_classes = static_cast<uint32_t>(head.rule.num_classes);
      const auto class_id = static_cast<int32_t>(KeyPosition(key) % num_classes);
      float xywhr[5];
      head.ReadBox(key, xywhr);
      counts = HasRotatedArea(batch.images[blockIdx.x], xywhr);
      suppression.SetBox(xywhr, !counts ? kNoClass : batch.class_agnostic != 0 ? 0 : class_id);
    }
    if (by_all) {
      suppression.SuppressByAll(size, batch.max_rows, counts);
    } else {
      suppression.SuppressGreedily(batch.max_rows, counts);
    }
    return suppression.rows();
  });
}

__device__ void WriteRotatedRow(const RotatedHead& head, const DetectionBatch& batch, uint32_t row,
                                uint64_t key) {
  const DetectionImage& target = batch.images[blockIdx.x];
  float xywhr[5];
  head.ReadBox(key, xywhr);
  const bool mapped = HasGeometry(target);
  const Geometry geometry = mapped ? ReadGeometry(target) : Geometry{};
  SourceBox box = RotatedToSource(xywhr, mapped ? &geometry : nullptr);
  if (batch.rotated.le90 != 0) box = ToLe90(box);
  if (target.extra != nullptr) target.extra[row] = static_cast<float>(box.angle);
  if (auto* boxes = Output<float>(target, kBoxesOutput); boxes != nullptr) {
    UnrotatedCorners(box, boxes + size_t{4} * row);
  }
  WriteScore(target, row, ReadCandidate(head.rule, head.image, key));
}

// The rows that suppression leaves. Returns their number.
template <typename Comparison>
__device__ uint32_t WriteSuppressedRows(const RotatedHead& head, const DetectionBatch& batch,
                                        const uint64_t* keys, uint32_t count,
                                        const Comparison& comparison, RotatedShared& shared) {
  const uint32_t image = blockIdx.x;
  void* scratch = static_cast<uint8_t*>(batch.kept) + size_t{image} * batch.kept_bytes;
  RotatedSuppression<Comparison> suppression(comparison, batch.rotated.scratch, scratch,
                                             shared.boxes, shared.chunk);
  Suppress(head, batch, keys, count, shared.chunk, suppression);
  for (uint32_t row = threadIdx.x; row < suppression.rows(); row += blockDim.x) {
    WriteRotatedRow(head, batch, row, suppression.kept_keys()[row]);
  }
  return suppression.rows();
}

// The rows of a network that has suppressed by itself. Returns their number.
__device__ uint32_t WriteBestRows(const RotatedHead& head, const DetectionBatch& batch,
                                  const uint64_t* keys, uint32_t count, RotatedKeyChunk& chunk) {
  return ForEachChunk(batch, keys, count, chunk, [&](uint32_t size, uint32_t rows) {
    const uint64_t key = chunk.keys[threadIdx.x];
    bool is_row = threadIdx.x < size;
    if (is_row) {
      float xywhr[5];
      head.ReadBox(key, xywhr);
      is_row = HasRotatedArea(batch.images[blockIdx.x], xywhr);
    }
    const BlockSum place = SumInBlock(is_row ? 1U : 0U, chunk.warp_sums);
    const uint32_t row = rows + place.before;
    if (is_row && row < batch.max_rows) WriteRotatedRow(head, batch, row, key);
    return min(rows + place.total, batch.max_rows);
  });
}

// One image. write_rows(head, keys, count) writes its rows and returns their number.
template <typename WriteRows>
__device__ void WriteRotatedImage(const HeadBatch& heads, const DetectionBatch& batch,
                                  ImageFaults& faults, WriteRows write_rows) {
  const RotatedHead head = {heads.rule, heads.images[blockIdx.x]};
  WriteImage(heads, batch, faults, [&](const uint64_t* keys, uint32_t count) {
    FindBadAngle(head, batch, keys, count, faults);
    return faults.record.fault == DetectionFault::kNone ? write_rows(head, keys, count) : 0;
  });
}

// kComparison: the one of RotatedRule's for the batch's method.
template <auto kComparison>
__global__ void __launch_bounds__(kRotatedChunk, 1)
    WriteSuppressed(const __grid_constant__ HeadBatch heads,
                    const __grid_constant__ DetectionBatch batch) {
  __shared__ RotatedShared shared;
  WriteRotatedImage(heads, batch, shared.faults,
                    [&](const RotatedHead& head, const uint64_t* keys, uint32_t count) {
                      return WriteSuppressedRows(head, batch, keys, count,
                                                 batch.rotated.rule.*kComparison, shared);
                    });
}

struct BestShared {
  RotatedKeyChunk chunk;
  ImageFaults faults;
};

__global__ void __launch_bounds__(kRotatedChunk, 1)
    WriteBest(const __grid_constant__ HeadBatch heads,
              const __grid_constant__ DetectionBatch batch) {
  __shared__ BestShared shared;
  WriteRotatedImage(heads, batch, shared.faults,
                    [&](const RotatedHead& head, const uint64_t* keys, uint32_t count) {
                      return WriteBestRows(head, batch, keys, count, shared.chunk);
                    });
}

auto* SelectKernel(const DetectionBatch& batch) {
  if (batch.needs_nms == 0) return WriteBest;
  return batch.rotated.rule.method == RotatedNms::kPolygon ? WriteSuppressed<&RotatedRule::polygon>
                                                           : WriteSuppressed<&RotatedRule::probiou>;
}

}  // namespace

void LaunchRotatedRows(const DetectionLaunch& launch, cudaStream_t stream) {
  Launch(SelectKernel(launch.detections), static_cast<uint32_t>(launch.heads.count), kRotatedChunk,
         0, stream, launch.heads, launch.detections);
}

}  // namespace endcap
