#include "box_decode/cuda/candidate.cuh"
#include "box_decode/cuda/filters.h"
#include "box_decode/score.h"
#include "cuda_runtime/launch.h"

// rtdetr and ssd: rows of scores, of which a group of lanes takes one: few of eight are idle in
// rows of 21 or 91, and they read whole sectors of 32 bytes. All lanes of a warp call every
// function; a group without a row reads nothing.

namespace endcap {
namespace {

constexpr uint32_t kGroup = kRowSumParts;  // a lane sums one part
constexpr uint32_t kRowThreads = 128;
constexpr uint32_t kBlockRows = kRowThreads / kGroup;

__device__ inline uint32_t GroupLane() { return threadIdx.x % kGroup; }

// Whether the predicate is true in any lane of the group.
__device__ inline bool AnyInGroup(bool predicate) {
  const uint32_t first = threadIdx.x % 32 / kGroup * kGroup;
  return (__ballot_sync(kAllLanes, predicate) >> first & ((1U << kGroup) - 1U)) != 0;
}

// What the lanes of a group find in their row, the same for all. A group without a row has no
// scores.
struct RowFacts {
  float highest;        // background included
  float best;           // the greatest class's
  uint32_t best_class;  // the first of the greatest
  bool nan;
};

template <typename T>
__device__ RowFacts ScanRow(const HeadRule& rule, const Numbers<T>& scores) {
  RowFacts facts = {-INFINITY, -INFINITY, 0, false};
  const auto num_classes = static_cast<uint32_t>(rule.num_classes);
#pragma unroll 4
  for (uint32_t i = GroupLane(); i < scores.count; i += kGroup) {
    const float score = scores[i];
    const uint32_t c = i - rule.rows.first_class;  // wraps for a background that comes first
    facts.nan |= IsNan(score);
    if (score > facts.highest) facts.highest = score;
    if (c < num_classes && score > facts.best) {
      facts.best = score;
      facts.best_class = c;
    }
  }
  for (int step = kGroup / 2; step > 0; step /= 2) {
    const float highest = __shfl_xor_sync(kAllLanes, facts.highest, step);
    const float best = __shfl_xor_sync(kAllLanes, facts.best, step);
    const uint32_t best_class = __shfl_xor_sync(kAllLanes, facts.best_class, step);
    if (highest > facts.highest) facts.highest = highest;
    if (best > facts.best || (best == facts.best && best_class < facts.best_class)) {
      facts.best = best;
      facts.best_class = best_class;
    }
  }
  facts.nan = AnyInGroup(facts.nan);
  return facts;
}

// Whether the row's scores, box or anchor hold a NaN; all of them are noted, unless on_nan is
// kDrop. `row` exists where the scores have a count.
template <typename T>
__device__ bool NoteNan(const HeadBatch& batch, uint32_t image, const Numbers<T>& scores,
                        uint32_t row, bool in_scores) {
  const HeadImage& head = batch.images[image];
  const ScoreRowRule& rows = batch.rule.rows;
  CandidateState& state = batch.states[image];
  const bool notes = batch.rule.drops == 0;
  for (uint32_t i = GroupLane(); notes && in_scores && i < scores.count; i += kGroup) {
    if (!IsNan(scores[i])) continue;
    NoteFirst(&state.nan[rows.score_input], row * rows.score_row_length + rows.first_score + i);
  }
  static_assert(kGroup == 8);  // four lanes take the box, the others the anchor
  const bool at_anchor = GroupLane() >= 4;
  const int input = at_anchor ? kAnchorInput : rows.box_input;
  const uint32_t place = row * (at_anchor ? 4 : rows.box_row_length) + GroupLane() % 4;
  const bool reads =
      scores.count > 0 && (!at_anchor || batch.rule.anchors.source == AnchorSource::kInput);
  const bool is_nan = reads && IsNan(ReadValue(head, input, place));
  if (notes && is_nan) NoteFirst(&state.nan[input], place);
  return AnyInGroup(is_nan) || in_scores;
}

// Whether a class of the row can pass, whose softmax can be taken.
template <typename T>
__device__ bool MayPass(const HeadRule& rule, const Numbers<T>& scores, const RowFacts& facts) {
  const bool subtracts = rule.activation == Activation::kSoftmax && rule.rows.background >= 0;
  const float background = subtracts ? scores[static_cast<uint32_t>(rule.rows.background)] : 0.0F;
  return facts.best - background > rule.raw_limit;
}

// The sum of the powers, in the order of the CPU implementation.
template <typename T>
__device__ double SumPowers(const Numbers<T>& scores, double highest) {
  double part = 0.0;
  for (uint32_t i = GroupLane(); i < scores.count; i += kGroup) {
    part += Exponential(scores[i] - highest);
  }
  for (int step = kGroup / 2; step > 0; step /= 2) {
    part += __shfl_xor_sync(kAllLanes, part, step);
  }
  return part;
}

// A raw score of a row as a candidate's key, or kNoKey.
struct KeyMaker {
  const HeadRule& rule;
  CandidateState& state;
  uint32_t row;
  double highest;  // softmax
  double sum;
  bool bad_box;

  __device__ uint64_t Key(float raw, uint32_t c) const {
    const bool softmax = rule.activation == Activation::kSoftmax;
    if (!softmax && !(raw > rule.raw_limit)) return kNoKey;
    const float score = softmax ? static_cast<float>(Exponential(raw - highest) / sum)
                                : ActivateScore(rule.activation, raw);
    if (!(score > rule.score_limit) || !PassesClass(rule.class_limits, c, score)) return kNoKey;
    const uint64_t key = ScoreKey(score, row * static_cast<uint32_t>(rule.num_classes) + c);
    if (rule.drops == 0 && (bad_box || !IsFinite(score))) NoteBadKey(state, key);
    return key;
  }
};

template <typename T>
__device__ void FilterRow(const HeadBatch& batch, uint32_t image) {
  const HeadRule& rule = batch.rule;
  const HeadImage& head = batch.images[image];
  CandidateState& state = batch.states[image];
  const auto num_classes = static_cast<uint32_t>(rule.num_classes);
  const uint32_t row = blockIdx.x * kBlockRows + threadIdx.x / kGroup;
  const bool has_row = row < head.rows;
  Numbers<T> scores = {static_cast<const T*>(head.inputs[rule.rows.score_input]) +
                           uint64_t{has_row ? row : 0} * rule.rows.score_row_length +
                           rule.rows.first_score,
                       has_row ? rule.rows.columns : 0};
  const RowFacts facts = ScanRow(rule, scores);
  const bool nan = NoteNan(batch, image, scores, row, facts.nan);
  const bool no_softmax =
      has_row && !nan && rule.activation == Activation::kSoftmax && !IsFinite(facts.highest);
  if (no_softmax && rule.drops == 0) NoteFirst(&state.bad_row, row);
  bool drops = rule.drops != 0 && (nan || no_softmax);
  bool passes = has_row && !nan && !no_softmax && MayPass(rule, scores, facts);
  if (!__any_sync(kAllLanes, passes)) {
    if (drops && GroupLane() == 0) CountDropped(state);
    return;
  }
  if (!passes) scores.count = 0;
  KeyMaker maker = {rule, state, row, facts.highest, 1.0, false};
  if (rule.activation == Activation::kSoftmax) maker.sum = SumPowers(scores, facts.highest);
  if (passes) {
    const uint64_t place = uint64_t{row} * rule.rows.box_row_length;
    const BoxXyxy box = ReadBoxRow(head, rule.rows.box_input, place);
    maker.bad_box = !IsFinite(ToPixels(rule, ApplyAnchor(rule, head, box, row)));
  }
  if (rule.drops != 0) {
    const auto drops_for = [&](float raw, uint32_t c) {
      const uint64_t key = maker.Key(raw, c);
      return key != kNoKey && (maker.bad_box || !IsFinite(KeyScore(key)));
    };
    // Without limits of classes the best class passes if any does.
    drops |= passes && drops_for(facts.best, facts.best_class);
    if (rule.multi_label != 0 && rule.class_limits != nullptr) {
      bool any = false;
      for (uint32_t c = GroupLane(); passes && c < num_classes; c += kGroup) {
        any |= drops_for(scores[rule.rows.first_class + c], c);
      }
      drops |= AnyInGroup(any);
    }
    if (drops && GroupLane() == 0) CountDropped(state);
    passes = passes && !drops;
  }
  if (rule.multi_label == 0) {
    const bool takes = passes && GroupLane() == 0;
    AppendKeys(batch, image, takes ? maker.Key(facts.best, facts.best_class) : kNoKey);
    return;
  }
  for (uint32_t first = 0; first < num_classes; first += kGroup) {
    const uint32_t c = first + GroupLane();
    const bool takes = passes && c < num_classes;
    AppendKeys(batch, image, takes ? maker.Key(scores[rule.rows.first_class + c], c) : kNoKey);
  }
}

__global__ void __launch_bounds__(kRowThreads)
    FilterScoreRows(const __grid_constant__ HeadBatch batch) {
  WithElementType(batch.images[blockIdx.y], batch.rule.rows.score_input,
                  [&](auto value) { FilterRow<decltype(value)>(batch, blockIdx.y); });
}

}  // namespace

void LaunchFilterScoreRows(const HeadBatch& batch, cudaStream_t stream) {
  LaunchForRows(FilterScoreRows, batch, kBlockRows, kRowThreads, stream);
}

}  // namespace endcap
