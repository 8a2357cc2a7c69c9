#pragma once

#include "common/host_device.h"
#include "preprocess/cuda/fused_launch.h"

namespace endcap {

// Columns that one thread makes.
inline constexpr int kFusedQuad = 4;

// Quads of the tensor that hold visible columns: [first, end).
struct FusedQuads {
  int first = 0;
  int end = 0;
};

ENDCAP_HOST_DEVICE constexpr FusedQuads VisibleQuads(int out_x, int visible_w) {
  return {out_x / kFusedQuad, (out_x + visible_w + kFusedQuad - 1) / kFusedQuad};
}

// Samples [base, base + count) of the columns' axis, as stored, that a block reads for its columns.
// `base` is a multiple of kFusedGroup.
struct FusedSpan {
  int base = 0;
  int count = 0;
};

// Bytes that are copied to shared memory at once.
inline constexpr int kFusedCopyBytes = 16;

// Bytes of a sample in shared memory.
ENDCAP_HOST_DEVICE constexpr int StagedSampleBytes(FusedVariant variant) {
  return variant == FusedVariant::kCopied ? 3 : 4;
}

// Bytes from one row in shared memory to the next, at least: whole groups; or, of rows as they are,
// space to begin where they begin between multiples of 16 bytes, and for words that begin in a row.
ENDCAP_HOST_DEVICE constexpr int StagedRowBytes(FusedVariant variant, const FusedSpan& span) {
  if (variant != FusedVariant::kCopied) {
    return (span.count + kFusedGroup - 1) / kFusedGroup * kFusedGroup * StagedSampleBytes(variant);
  }
  const int bytes = StagedSampleBytes(variant) * span.count;
  return (bytes + 2 * (kFusedCopyBytes - 1) + 6) / kFusedCopyBytes * kFusedCopyBytes;
}

ENDCAP_HOST_DEVICE constexpr int ClampSample(int sample, int samples) {
  return sample < 0 ? 0 : (sample < samples ? sample : samples - 1);
}

// first, last: `first` of the block's first and last column.
ENDCAP_HOST_DEVICE constexpr FusedSpan ComputeSpan(const FusedAxis& axis, int first, int last,
                                                   bool flip) {
  const int low = ClampSample(first, axis.samples);
  const int high = ClampSample(last + axis.taps - 1, axis.samples);
  const int begin = flip ? axis.samples - 1 - high : low;
  const int end = flip ? axis.samples - low : high + 1;
  const int base = begin / kFusedGroup * kFusedGroup;
  return {base, end - base};
}

}  // namespace endcap
