// The heads of models that suppress by themselves: end2end and its like, efficient_nms, detections.
// They have some hundred rows; a thread takes one.

#include "box_decode/cuda/candidate_keys.cuh"
#include "box_decode/cuda/filters.h"
#include "box_decode/score.h"
#include "cuda_runtime/launch.h"

namespace endcap {
namespace {

constexpr uint32_t kEnd2EndThreads = 256;

// The first numbers of a row of `row_length`. Whether there is a NaN, which is noted.
template <uint32_t kCount>
__device__ bool ReadRow(const HeadBatch& batch, uint32_t image, int input, uint32_t row,
                        uint32_t row_length, float (&numbers)[kCount]) {
  bool nan = false;
  for (uint32_t i = 0; i < kCount; ++i) {
    const uint32_t element = row * row_length + i;
    numbers[i] = ReadValue(batch.images[image], input, element);
    if (!IsNan(numbers[i])) continue;
    nan = true;
    if (batch.rule.drops == 0) NoteFirst(&batch.states[image].nan[input], element);
  }
  return nan;
}

__device__ uint64_t DropRow(CandidateState& state) {
  CountDropped(state);
  return kNoKey;
}

// The key of a row over the lowest limit of a class, or kNoKey where it is dropped or not over that
// of its class, which must be one of the head's.
__device__ uint64_t RowKey(const HeadBatch& batch, uint32_t image, uint32_t row, const BoxXyxy& box,
                           float score, bool class_fits, int64_t class_id) {
  const HeadRule& rule = batch.rule;
  CandidateState& state = batch.states[image];
  if (!class_fits) {
    NoteFirst(&state.bad_row, row);
    return kNoKey;
  }
  if (!PassesClass(rule.class_limits, static_cast<uint32_t>(class_id), score)) return kNoKey;
  const uint64_t key = ScoreKey(score, row);
  const bool finite = IsFinite(score) && IsFinite(ToPixels(rule, box));
  if (rule.drops == 0 && !finite) NoteBadKey(state, key);
  if (rule.drops == 0 || (finite && HasFiniteExtras(rule, batch.images[image], row))) return key;
  return DropRow(state);
}

// [K, 6+extra]: x1, y1, x2, y2, score, class, extra values.
__device__ uint64_t End2EndKey(const HeadBatch& batch, uint32_t image, uint32_t row) {
  float numbers[6];
  const bool nan = ReadRow(batch, image, 0, row, batch.rule.values.row_length, numbers);
  if (batch.rule.drops != 0 && nan) return DropRow(batch.states[image]);
  const float score = ActivateScore(batch.rule.activation, numbers[4]);
  if (!(score > batch.rule.score_limit)) return kNoKey;
  const float c = numbers[5];
  if (batch.rule.drops != 0 && !IsFinite(c)) return DropRow(batch.states[image]);
  const bool class_fits =
      c >= 0.0F && static_cast<double>(c) < batch.rule.num_classes && c == floorf(c);
  const BoxXyxy box = {numbers[0], numbers[1], numbers[2], numbers[3]};
  return RowKey(batch, image, row, box, score, class_fits,
                class_fits ? static_cast<int64_t>(c) : 0);
}

__global__ void __launch_bounds__(kEnd2EndThreads)
    FilterEnd2End(const __grid_constant__ HeadBatch batch) {
  const uint32_t image = blockIdx.y;
  const uint32_t row = blockIdx.x * kEnd2EndThreads + threadIdx.x;
  if (batch.images[image].blank != 0) return;
  const bool has_row = row < batch.images[image].rows;
  AppendKeys(batch, image, has_row ? End2EndKey(batch, image, row) : kNoKey);
}

__device__ uint64_t DetectionRowKey(const HeadBatch& batch, uint32_t image, uint32_t row) {
  const DetectionRowsRule& rule = batch.rule.detection_rows;
  float box[4];
  float score[1];
  bool nan = ReadRow(batch, image, rule.box_input, row, 4, box);
  nan |= ReadRow(batch, image, rule.score_input, row, 1, score);
  if (batch.rule.drops != 0 && nan) return DropRow(batch.states[image]);
  const int64_t c = ReadInteger(batch.images[image], rule.class_input, row);
  if (rule.IsBackground(c) || !(score[0] > batch.rule.score_limit)) return kNoKey;
  return RowKey(batch, image, row, {box[0], box[1], box[2], box[3]}, score[0],
                rule.HasClass(c, batch.rule.num_classes), c - rule.first_class);
}

__global__ void __launch_bounds__(kEnd2EndThreads)
    FilterDetectionRows(const __grid_constant__ HeadBatch batch) {
  const uint32_t image = blockIdx.y;
  const HeadImage& head = batch.images[image];
  const uint32_t row = blockIdx.x * kEnd2EndThreads + threadIdx.x;
  if (head.blank != 0) return;
  const int32_t count_input = batch.rule.detection_rows.count_input;
  const int64_t used = count_input < 0 ? int64_t{head.rows} : ReadInteger(head, count_input, 0);
  if (row == 0 && used < 0) batch.states[image].bad_count = 1;
  if (row == 0 && used > int64_t{head.rows}) batch.states[image].bad_count = 2;
  // Of more rows than there are, these are still looked at for NaN, which is said first.
  const bool has_row = row < head.rows && static_cast<int64_t>(row) < used;
  AppendKeys(batch, image, has_row ? DetectionRowKey(batch, image, row) : kNoKey);
}

}  // namespace

void LaunchFilterEnd2End(const HeadBatch& batch, cudaStream_t stream) {
  LaunchForRows(FilterEnd2End, batch, kEnd2EndThreads, kEnd2EndThreads, stream);
}

void LaunchFilterDetectionRows(const HeadBatch& batch, cudaStream_t stream) {
  LaunchForRows(FilterDetectionRows, batch, kEnd2EndThreads, kEnd2EndThreads, stream);
}

}  // namespace endcap
