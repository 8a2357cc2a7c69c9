#include "box_decode/cuda/candidate_keys.cuh"
#include "box_decode/cuda/filters.h"
#include "box_decode/score.h"
#include "cuda_runtime/launch.h"

namespace endcap {
namespace {

constexpr uint32_t kLogitThreads = kSumParts;  // a thread sums one part

struct Shared {
  double parts[kLogitThreads];
  float highest[kLogitThreads];
};

// What a class's score is without other classes'.
__device__ inline bool IsSoftmax(const HeadRule& rule) {
  return rule.activation == Activation::kSoftmax;
}

// The greatest logit. Notes NaN, and scores that are not finite, as bad_row.
template <typename T>
__device__ float CheckLogits(const HeadRule& rule, const Numbers<T>& logits, CandidateState& state,
                             Shared& shared) {
  const uint32_t t = threadIdx.x;
  float highest = -INFINITY;
  for (uint32_t i = t; i < logits.count; i += kLogitThreads) {
    const float logit = logits[i];
    if (IsNan(logit)) NoteFirst(&state.nan[0], i);
    if (!IsSoftmax(rule) && !IsFinite(ActivateScore(rule.activation, logit))) {
      NoteFirst(&state.bad_row, i);
    }
    highest = logit > highest ? logit : highest;
  }
  shared.highest[t] = highest;
  for (uint32_t half = kLogitThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (t < half && shared.highest[t + half] > shared.highest[t]) {
      shared.highest[t] = shared.highest[t + half];
    }
  }
  __syncthreads();
  return shared.highest[0];
}

// The sum of the powers, in the order of Exponential's sums.
template <typename T>
__device__ double SumPowers(const Numbers<T>& logits, float highest, Shared& shared) {
  const uint32_t t = threadIdx.x;
  double part = 0.0;
  for (uint32_t i = t; i < logits.count; i += kLogitThreads) {
    part += Exponential(static_cast<double>(logits[i]) - highest);
  }
  shared.parts[t] = part;
  for (uint32_t half = kLogitThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (t < half) shared.parts[t] += shared.parts[t + half];
  }
  __syncthreads();
  return shared.parts[0];
}

// The keys of the classes over their limits, which a classifier has with multi_label or `classes`.
template <typename ScoreOf>
__device__ void AppendPassing(const HeadBatch& batch, uint32_t image, uint32_t count,
                              ScoreOf score_of) {
  for (uint32_t first = 0; first < count; first += kLogitThreads) {
    const uint32_t i = first + threadIdx.x;
    const float score = i < count ? score_of(i) : -INFINITY;
    const bool passes =
        score > batch.rule.score_limit && PassesClass(batch.rule.class_limits, i, score);
    AppendKeys(batch, image, passes ? ScoreKey(score, i) : kNoKey);
  }
}

template <typename T>
__device__ void FilterLogits(const HeadBatch& batch, uint32_t image, Shared& shared) {
  const HeadImage& head = batch.images[image];
  const Numbers<T> logits = {static_cast<const T*>(head.inputs[0]), head.rows};
  CandidateState& state = batch.states[image];
  const float highest = CheckLogits(batch.rule, logits, state, shared);
  if (IsSoftmax(batch.rule) && !IsFinite(highest)) {
    if (threadIdx.x == 0) NoteFirst(&state.bad_row, highest > 0.0F ? kHighestInf : kHighestLow);
    return;
  }
  const double total = IsSoftmax(batch.rule) ? SumPowers(logits, highest, shared) : 1.0;
  const auto score_of = [&](uint32_t i) {
    const float logit = logits[i];
    const float score =
        IsSoftmax(batch.rule)
            ? static_cast<float>(Exponential(static_cast<double>(logit) - highest) / total)
            : ActivateScore(batch.rule.activation, logit);
    if (head.class_probabilities != nullptr) head.class_probabilities[i] = score;
    return score;
  };
  if (batch.rule.multi_label != 0 || batch.rule.class_limits != nullptr) {
    return AppendPassing(batch, image, logits.count, score_of);
  }
  uint64_t* keys = batch.keys + static_cast<uint64_t>(image) * batch.key_capacity;
  for (uint32_t i = threadIdx.x; i < logits.count; i += kLogitThreads) {
    keys[i] = ScoreKey(score_of(i), i);
  }
  if (threadIdx.x == 0) state.count = logits.count;
}

__global__ void __launch_bounds__(kLogitThreads)
    FilterClassification(const __grid_constant__ HeadBatch batch) {
  __shared__ Shared shared;
  WithElementType(batch.images[blockIdx.x], 0,
                  [&](auto value) { FilterLogits<decltype(value)>(batch, blockIdx.x, shared); });
}

}  // namespace

// A block for each image's logits [C]; every class is a candidate, or with multi_label those over
// the threshold.
void LaunchFilterClassification(const HeadBatch& batch, cudaStream_t stream) {
  Launch(FilterClassification, static_cast<uint32_t>(batch.count), kLogitThreads, 0, stream, batch);
}

}  // namespace endcap
