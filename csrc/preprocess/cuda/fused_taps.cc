#include <algorithm>
#include <bit>

#include "common/fail.h"
#include "preprocess/cuda/fused_plan.h"
#include "preprocess/cuda/fused_span.h"

namespace endcap {
namespace {

int32_t WeightBits(const AxisTaps& axis, size_t entry) {
  return axis.float_weight.empty() ? axis.fixed_weight[entry]
                                   : std::bit_cast<int32_t>(axis.float_weight[entry]);
}

bool HasWeight(const AxisTaps& axis, size_t entry) {
  return axis.float_weight.empty() ? axis.fixed_weight[entry] != 0
                                   : axis.float_weight[entry] != 0.0F;
}

// The first sample of an output's taps, at least `least`: that from which all taps with a weight
// are met. At the border there may be several.
int FindFirst(const AxisTaps& axis, int output, int source_size, int least) {
  const size_t entry = axis.Offset(output);
  const auto meets = [&](int first) {
    for (int k = 0; k < axis.taps; ++k) {
      const size_t tap = entry + static_cast<size_t>(k);
      if (HasWeight(axis, tap) && ClampSample(first + k, source_size) != axis.index[tap]) {
        return false;
      }
    }
    return true;
  };
  for (int k = 0; k < axis.taps; ++k) {
    const int first = std::max(axis.index[entry + static_cast<size_t>(k)] - k, least);
    if (HasWeight(axis, entry + static_cast<size_t>(k)) && meets(first)) return first;
  }
  Fail(ErrorCode::kInternal, "the taps of output ", output,
       " are not neighbours, or begin before those of the one before");
}

// What positions are counted in: far more than pictures of one kind have.
constexpr size_t kMaxWords = size_t{1} << 28;

void CheckWords(size_t words) {
  if (words > kMaxWords) {
    FailArgument(
        "images or regions of too many sizes came together: their filters' weights take "
        "more than ",
        kMaxWords, " numbers; give fewer in a call");
  }
}

void AlignWords(std::vector<int32_t>& words) {
  words.resize((words.size() + kFusedQuad - 1) / kFusedQuad * kFusedQuad);
}

// Whole quads; what is not visible in them repeats the nearest visible column's samples and has no
// weight.
FusedAxis AppendColumns(const CompactTaps& taps, const Placement& placement, int samples,
                        std::vector<int32_t>& words) {
  const FusedQuads quads = VisibleQuads(placement.out_x, placement.visible_w);
  const int count = kFusedQuad * (quads.end - quads.first);
  const int before = placement.out_x - kFusedQuad * quads.first;
  const auto column_of = [&](int i) {
    return static_cast<size_t>(std::clamp(i - before, 0, taps.size() - 1));
  };
  AlignWords(words);
  FusedAxis axis;
  axis.taps = taps.taps;
  axis.samples = samples;
  axis.first = static_cast<int32_t>(words.size());
  for (int i = 0; i < count; ++i) words.push_back(taps.first[column_of(i)]);
  axis.weight = static_cast<int32_t>(words.size());
  for (int k = 0; k < taps.taps; ++k) {
    for (int i = 0; i < count; ++i) {
      const bool visible = i >= before && i < before + taps.size();
      const size_t entry = column_of(i) * static_cast<size_t>(taps.taps) + static_cast<size_t>(k);
      words.push_back(visible ? taps.weight[entry] : 0);
    }
  }
  return axis;
}

// The taps of an output up to the last that has a weight in any; bilinear ones of an image that is
// three times as large have one.
int UsedTaps(const CompactTaps& taps) {
  int used = 1;
  for (size_t i = 0; i < taps.weight.size(); ++i) {
    if (taps.weight[i] != 0) used = std::max(used, static_cast<int>(i) % taps.taps + 1);
  }
  return used;
}

FusedAxis AppendRows(const CompactTaps& taps, int samples, std::vector<int32_t>& words) {
  FusedAxis axis;
  axis.taps = UsedTaps(taps);
  axis.samples = samples;
  axis.first = static_cast<int32_t>(words.size());
  words.insert(words.end(), taps.first.begin(), taps.first.end());
  axis.weight = static_cast<int32_t>(words.size());
  for (auto output = taps.weight.begin(); output != taps.weight.end(); output += taps.taps) {
    words.insert(words.end(), output, output + axis.taps);
  }
  return axis;
}

}  // namespace

CompactTaps Compact(const AxisTaps& axis, int source_size) {
  CompactTaps compact;
  compact.taps = axis.taps;
  for (int i = 0; i < axis.size(); ++i) {
    const int least = i == 0 ? 1 - axis.taps : compact.first.back();
    compact.first.push_back(FindFirst(axis, i, source_size, least));
    for (int k = 0; k < axis.taps; ++k) {
      compact.weight.push_back(WeightBits(axis, axis.Offset(i) + static_cast<size_t>(k)));
    }
  }
  return compact;
}

FusedTaps AppendTaps(const PreprocessParams& params, const Placement& placement, int width,
                     int height, std::vector<int32_t>& words) {
  CheckWords(words.size());
  const AxisTaps columns =
      MakeAxisTaps(params, {width, placement.resized_w, placement.crop_x, placement.visible_w,
                            false, height, placement.resized_h});
  const AxisTaps rows =
      MakeAxisTaps(params, {height, placement.resized_h, placement.crop_y, placement.visible_h,
                            true, width, placement.resized_w});
  FusedTaps taps;
  taps.columns = AppendColumns(Compact(columns, width), placement, width, words);
  taps.rows = AppendRows(Compact(rows, height), height, words);
  taps.fixed_weights = columns.float_weight.empty();
  taps.sum_scale = rows.sum_scale;
  return taps;
}

}  // namespace endcap
