#include <algorithm>

#include "cuda_runtime/launch.h"
#include "postprocess/cuda/detection_rows.cuh"
#include "postprocess/cuda/kernels.h"
#include "postprocess/cuda/mask_logits.cuh"

namespace endcap {
namespace {

constexpr uint32_t kSettleThreads = 256;

__device__ DetectionRecord LogitFault(const HeadBatch& heads, const DetectionBatch& batch,
                                      const MaskBatch& masks, uint32_t image) {
  const uint64_t number = ~uint64_t{heads.states[image].bad_logit};
  const auto detection = static_cast<uint32_t>(number >> 32U);
  const MaskPlace place = MaskPlace::Of(static_cast<uint32_t>(number));
  const MaskSource source = MakeMaskSource(heads, batch, masks, masks.axes, image, detection);
  DetectionRecord record = Fault(DetectionFault::kMaskLogit, detection,
                                 source.Logit(place.row, place.column), place.number());
  record.input = static_cast<int32_t>(source.anchor);
  return record;
}

// By the block.
__device__ void WriteZeros(uint8_t* to, uint64_t bytes) {
  const uint64_t before_words = (16 - reinterpret_cast<uintptr_t>(to) % 16) % 16;
  const uint64_t head = min(before_words, bytes);
  const uint64_t words = (bytes - head) / 16;
  const uint64_t tail = head + 16 * words;
  auto* wide = reinterpret_cast<uint4*>(to + head);
  for (uint64_t i = threadIdx.x; i < head; i += kSettleThreads) to[i] = 0;
  for (uint64_t i = threadIdx.x; i < words; i += kSettleThreads) wide[i] = make_uint4(0, 0, 0, 0);
  for (uint64_t i = tail + threadIdx.x; i < bytes; i += kSettleThreads) to[i] = 0;
}

__device__ void WriteSize(const MaskAxes& axes, int32_t* size, DetectionRecord* record) {
  if (size != nullptr) {
    size[0] = axes.y.pixels;
    size[1] = axes.x.pixels;
  }
  if (record != nullptr) {
    record->mask_height = axes.y.pixels;
    record->mask_width = axes.x.pixels;
  }
}

// A block for each image: mask_size, and an end to those that have failed now.
__global__ void __launch_bounds__(kSettleThreads)
    SettleMasks(const __grid_constant__ HeadBatch heads,
                const __grid_constant__ DetectionBatch batch,
                const __grid_constant__ MaskBatch masks) {
  const uint32_t image = blockIdx.x;
  const DetectionImage& target = batch.images[image];
  const bool had_failed = batch.kept_rows[image] == kNoRows;
  const bool fails = !had_failed && heads.states[image].bad_logit != 0;
  if (threadIdx.x == 0) {
    WriteSize(had_failed || fails ? MaskAxes{} : MakeAxes(masks, target), masks.sizes[image],
              batch.records == nullptr ? nullptr : &batch.records[image]);
  }
  if (!fails) return;
  const DetectionRecord record = LogitFault(heads, batch, masks, image);
  __syncthreads();  // before kept_rows changes
  WriteFault(heads, batch, image, record);
  const uint64_t bytes = uint64_t{masks.row_bytes} * static_cast<uint32_t>(masks.axes.y.pixels);
  if (target.masks != nullptr) WriteZeros(target.masks, bytes * batch.max_rows);
}

// Whether an image has what `member` points to.
template <typename T>
bool Any(const DetectionLaunch& launch, T* DetectionImage::* member) {
  const DetectionImage* images = launch.detections.images;
  return std::any_of(images, images + launch.heads.count,
                     [&](const DetectionImage& image) { return image.*member != nullptr; });
}

}  // namespace

void LaunchMasks(const DetectionLaunch& launch, cudaStream_t stream) {
  if (Any(launch, &DetectionImage::masks)) LaunchPackedMasks(launch, stream);
  if (Any(launch, &DetectionImage::run_lengths)) LaunchRunLengths(launch, stream);
  Launch(SettleMasks, static_cast<uint32_t>(launch.heads.count), kSettleThreads, 0, stream,
         launch.heads, launch.detections, launch.masks);
}

}  // namespace endcap
