#include "cuda_runtime/block_sum.h"
#include "cuda_runtime/launch.h"
#include "masks/masks.h"
#include "postprocess/cuda/kernels.h"
#include "postprocess/cuda/mask_window.cuh"

// RLE of masks: the definition is masks/masks_scalar.cc and masks/rle.cc. A block
// makes the string of one mask, which is never there pixel by pixel: the logits below its box; for
// each column the pixels where it changes, between prototype pixels of different signs; from these
// the lengths, and the characters that each of them takes.

namespace endcap {
namespace {

constexpr uint32_t kEncodeThreads = 256;
constexpr uint32_t kEncodeWarps = kEncodeThreads / 32;

struct EncodeShared {
  uint32_t warp_sums[kEncodeWarps];
  unsigned long long place;
};

// As much of a memory, or of a limit, as the block needs. False where less is left.
__device__ bool Take(unsigned long long* asked, uint64_t capacity, uint64_t need,
                     EncodeShared& shared, uint64_t& place) {
  if (threadIdx.x == 0) {
    shared.place = atomicAdd(asked, static_cast<unsigned long long>(need));
  }
  __syncthreads();
  place = shared.place;
  __syncthreads();
  return place <= capacity && need <= capacity - place;
}

// How many changes the mask has; window.changes has those of each column.
__device__ uint32_t CountChanges(const BoxWindow& window, const MaskAxes& axes,
                                 EncodeShared& shared) {
  uint32_t count = 0;
  for (uint32_t i = threadIdx.x; i < window.pixels.columns.size(); i += kEncodeThreads) {
    uint32_t of_column = 0;
    ForEachChange(window, axes, window.pixels.columns.begin + static_cast<int>(i),
                  [&](uint32_t /*pixel*/) { ++of_column; });
    window.changes[i] = of_column;
    count += of_column;
  }
  return SumInBlock(count, shared.warp_sums).total;
}

__device__ void WriteChanges(const BoxWindow& window, const MaskAxes& axes, EncodeShared& shared,
                             uint32_t* changes) {
  const uint32_t columns = window.pixels.columns.size();
  uint32_t done = 0;
  for (uint32_t first = 0; first < columns; first += kEncodeThreads) {
    const uint32_t i = first + threadIdx.x;
    const BlockSum sum = SumInBlock(i < columns ? window.changes[i] : 0, shared.warp_sums);
    if (i < columns) {
      uint32_t* to = changes + done + sum.before;
      ForEachChange(window, axes, window.pixels.columns.begin + static_cast<int>(i),
                    [&](uint32_t pixel) { *to++ = pixel; });
    }
    done += sum.total;
  }
  __syncthreads();
}

// The lengths of a mask's runs, outside and inside in turn.
struct RunLengths {
  const uint32_t* changes;  // [count], ascending
  uint32_t count;
  uint32_t pixels;

  // The last change may be the end of the mask.
  __device__ uint32_t size() const {
    return count > 0 && changes[count - 1] == pixels ? count : count + 1;
  }
  __device__ uint32_t Length(uint32_t i) const {
    return (i < count ? changes[i] : pixels) - (i > 0 ? changes[i - 1] : 0);
  }
  // What the string holds: from the fourth on less the one two before.
  __device__ int64_t Number(uint32_t i) const {
    return int64_t{Length(i)} - (i > 2 ? int64_t{Length(i - 2)} : 0);
  }
};

__device__ uint32_t CountCharacters(int64_t number) {
  uint32_t count = 0;
  WriteRleNumber(number, [&](char /*group*/) { ++count; });
  return count;
}

__device__ void WriteText(const RunLengths& runs, EncodeShared& shared, char* text) {
  uint64_t done = 0;
  for (uint32_t first = 0; first < runs.size(); first += kEncodeThreads) {
    const uint32_t i = first + threadIdx.x;
    const int64_t number = i < runs.size() ? runs.Number(i) : 0;
    const uint32_t characters = i < runs.size() ? CountCharacters(number) : 0;
    const BlockSum sum = SumInBlock(characters, shared.warp_sums);
    if (i < runs.size()) {
      char* to = text + done + sum.before;
      WriteRleNumber(number, [&](char group) { *to++ = group; });
    }
    done += sum.total;
  }
}

// The string of the changes, where there is room for it.
__device__ void Encode(const RunLengths& runs, const RunLengthMemory& memory, uint32_t image,
                       EncodeShared& shared, RunLengthText& result) {
  uint32_t characters = 0;
  for (uint32_t i = threadIdx.x; i < runs.size(); i += kEncodeThreads) {
    characters += CountCharacters(runs.Number(i));
  }
  const uint32_t bytes = SumInBlock(characters, shared.warp_sums).total;
  uint64_t at = 0;
  const bool fits = Take(memory.bytes_of_image + image, kMaxRleBytes, bytes, shared, at) &&
                    Take(memory.bytes_asked, memory.text_bytes, bytes, shared, at);
  if (threadIdx.x == 0) result = {at, bytes};
  if (fits) WriteText(runs, shared, memory.text + at);
}

// Grid: x has the rows, y the images.
__global__ void __launch_bounds__(kEncodeThreads)
    WriteRunLengths(const __grid_constant__ HeadBatch heads,
                    const __grid_constant__ DetectionBatch batch,
                    const __grid_constant__ MaskBatch masks) {
  __shared__ EncodeShared shared;
  const uint32_t image = blockIdx.y;
  const uint32_t detection = blockIdx.x;
  const DetectionImage& target = batch.images[image];
  const uint32_t rows = batch.kept_rows[image];
  if (target.run_lengths == nullptr || rows == kNoRows || detection >= rows) return;
  const size_t kept = size_t{image} * batch.kept_capacity + detection;
  const float4 box = GetMaskBox(heads, batch, kept);
  const MaskAxes axes = MakeAxes(masks, target);
  const RunLengthMemory& memory = masks.runs;
  RunLengths runs = {nullptr, 0,
                     static_cast<uint32_t>(axes.x.pixels) * static_cast<uint32_t>(axes.y.pixels)};
  BoxWindow window = {};
  window.pixels = GetPixels(masks, target, axes, box);
  if (!window.pixels.empty()) {
    window.columns = GetPrototypes(axes.x, window.pixels.columns);
    window.rows = GetPrototypes(axes.y, window.pixels.rows);
    uint64_t place = 0;
    if (!Take(memory.words_asked, memory.scratch_words, window.words(), shared, place)) return;
    window.PlaceAt(memory.scratch + place);
    const MaskSource source = MakeMaskSource(heads, batch, masks, axes, image, detection);
    MakeCells(axes.y, window);
    if (!MakeWindowLogits(source, window, detection, heads.states[image])) return;
    runs.count = CountChanges(window, axes, shared);
    if (!Take(memory.words_asked, memory.scratch_words, runs.count, shared, place)) return;
    uint32_t* changes = memory.scratch + place;
    WriteChanges(window, axes, shared, changes);
    runs.changes = changes;
  }
  Encode(runs, memory, image, shared, target.run_lengths[detection]);
}

}  // namespace

void LaunchRunLengths(const DetectionLaunch& launch, cudaStream_t stream) {
  const auto images = static_cast<uint32_t>(launch.heads.count);
  Launch(WriteRunLengths, dim3(launch.detections.max_rows, images), kEncodeThreads, 0, stream,
         launch.heads, launch.detections, launch.masks);
}

}  // namespace endcap
