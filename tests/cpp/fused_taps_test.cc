// Taps as the kernel has them, against those that they are made of.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "preprocess/cuda/fused_plan.h"
#include "preprocess/cuda/fused_span.h"
#include "preprocess/placement.h"

namespace endcap {
namespace {

void ExpectSameTaps(const AxisTaps& axis, int source_size, const std::string& what) {
  const CompactTaps compact = Compact(axis, source_size);
  ASSERT_EQ(compact.size(), axis.size());
  ASSERT_EQ(compact.taps, axis.taps);
  for (int i = 0; i < axis.size(); ++i) {
    for (int k = 0; k < axis.taps; ++k) {
      const size_t entry = axis.Offset(i) + static_cast<size_t>(k);
      const int32_t weight = axis.float_weight.empty()
                                 ? axis.fixed_weight[entry]
                                 : std::bit_cast<int32_t>(axis.float_weight[entry]);
      ASSERT_EQ(compact.weight[entry], weight) << what;
      if (weight == 0) continue;
      const int first = compact.first[static_cast<size_t>(i)];
      ASSERT_EQ(ClampSample(first + k, source_size), axis.index[entry])
          << what << ", output " << i << ", tap " << k;
    }
    if (i > 0) {
      ASSERT_LE(compact.first[static_cast<size_t>(i) - 1], compact.first[static_cast<size_t>(i)]);
    }
  }
}

TEST(CompactTaps, EveryFilterAndManySizes) {
  for (const auto interpolation : {Interpolation::kNearest, Interpolation::kBilinear,
                                   Interpolation::kBicubic, Interpolation::kArea}) {
    for (const bool antialias : {false, true}) {
      if (antialias && interpolation == Interpolation::kNearest) continue;
      for (const Quantize quantize : {Quantize::kUint8, Quantize::kNone}) {
        PreprocessParams params;
        params.interpolation = interpolation;
        params.antialias = antialias;
        params.quantize = quantize;
        for (int source = 1; source <= 65500; source += source < 40 ? 1 : source / 3) {
          for (const int resized : {1, 2, 3, 7, 8, 33, 64, 100, 299, 300, 301, 640}) {
            for (const bool rows : {false, true}) {
              const AxisRequest request{source, resized, resized / 4, (resized + 1) / 2,
                                        rows,   source,  resized};
              ExpectSameTaps(MakeAxisTaps(params, request), source,
                             "filter " + std::to_string(static_cast<int>(interpolation)) + ", " +
                                 std::to_string(source) + " to " + std::to_string(resized));
            }
          }
        }
      }
    }
  }
}

// A span holds every sample of its columns, as stored, and begins with a group.
TEST(FusedSpan, HoldsWhatItsColumnsRead) {
  for (int samples = 1; samples <= 60; ++samples) {
    FusedAxis axis;
    axis.samples = samples;
    for (axis.taps = 1; axis.taps <= 5; ++axis.taps) {
      for (int first = -3; first < samples; ++first) {
        for (int last = first; last < samples; last += 7) {
          for (const bool flip : {false, true}) {
            const FusedSpan span = ComputeSpan(axis, first, last, flip);
            ASSERT_EQ(span.base % kFusedGroup, 0);
            ASSERT_GE(span.base, 0);
            ASSERT_LE(span.base + span.count, samples);
            for (int sample = first; sample < last + axis.taps; ++sample) {
              const int nearest = ClampSample(sample, samples);
              const int stored = flip ? samples - 1 - nearest : nearest;
              ASSERT_GE(stored, span.base);
              ASSERT_LT(stored, span.base + span.count);
            }
          }
        }
      }
    }
  }
}

// The block of a plan with one image of that size.
std::vector<uint8_t> GetBlock(FusedPlan& plan, const PreprocessParams& params, int width,
                              int height) {
  plan.Clear();
  FusedImage image;
  image.source = FusedSource::kRgb;
  image.width = width;
  image.height = height;
  image.row_stride_bytes[0] = 3 * width;
  plan.Add(image, Place(params, width, height), 1, nullptr);
  std::vector<uint8_t> block(plan.block_bytes());
  plan.WriteBlock(block.data());
  return block;
}

TEST(FusedPlan, KeepsTheTapsOfAFewSizesForLaterBatches) {
  const PreprocessParams params;
  FusedPlan plan(params);
  const std::vector<uint8_t> first = GetBlock(plan, params, 1920, 1080);
  EXPECT_EQ(GetBlock(plan, params, 1920, 1080), first);
  const size_t both = GetBlock(plan, params, 1280, 719).size();
  EXPECT_GT(both, first.size());
  // The image of the first size again: nothing is added, and it finds its own taps.
  const std::vector<uint8_t> again = GetBlock(plan, params, 1920, 1080);
  EXPECT_EQ(again.size(), both);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), again.begin()));
}

TEST(FusedPlan, ForgetsTapsOfManySizes) {
  const PreprocessParams params;
  FusedPlan plan(params);
  size_t most = 0;
  for (int width = 300; width < 900; ++width) {
    most = std::max(most, GetBlock(plan, params, width, 600).size());
  }
  EXPECT_LT(most, size_t{300} << 10);
}

}  // namespace
}  // namespace endcap
