// Launches are planned with the constants of the library that makes them.

#include <gtest/gtest.h>

#include <vector>

#include "cuda_preprocess_run.h"
#include "endcap/cuda.h"
#include "endcap/preprocess.h"
#include "image_tensor.h"
#include "preprocess/cuda/fused_plan.h"

namespace endcap {
namespace {

using testing::Bytes;
using testing::ExpectSame;
using testing::MakePixels;
using testing::OnCpu;
using testing::OnGpu;
using testing::PreprocessOnGpu;
using testing::Sized;

// EMULATED_CUDA_LIBRARY is tuned_cuda_library.cc here, which refuses any other launch.
TEST_F(PreprocessOnGpu, TheLibraryOfThisProcessSaysHow) {
  const Bytes pixels = MakePixels(60, 40, 3);
  ImageView image;
  image.format = PixelFormat::kRgb;
  image.width = 40;
  image.height = 60;
  image.planes[0] = {pixels.data(), 120};
  const std::vector<ImageView> images(3, image);
  for (const bool antialias : {false, true}) {
    PreprocessParams params = Sized(48, 300);
    params.antialias = antialias;
    ExpectSame(OnGpu(params, images), OnCpu(params, images));
  }
}

// Two images of 700 x 90 pixels.
FusedLaunch PlanWith(const FusedTuning& tuning) {
  PreprocessParams params = Sized(32, 640);
  params.antialias = true;
  FusedPlan plan(params, tuning);
  FusedImage pixels;
  pixels.source = FusedSource::kRgb;
  pixels.width = 700;
  pixels.height = 90;
  pixels.row_stride_bytes[0] = 2100;
  for (int i = 0; i < 2; ++i) plan.Add(pixels, Place(params, 700, 90), 1, nullptr);
  return plan.Launch(nullptr);
}

TEST(FusedTuning, EachConstantChangesThePlan) {
  const FusedTuning narrow = {.max_threads = 64,
                              .max_staged_rows = 1,
                              .max_staged_bytes = 8192,
                              .max_block_rows = 1,
                              .many_blocks = 100};
  const FusedLaunch base = PlanWith(narrow);
  EXPECT_EQ(base.threads, 64);
  EXPECT_EQ(base.block_rows, 1);
  const auto changed = [&](int32_t FusedTuning::* constant, int32_t value) {
    FusedTuning tuning = narrow;
    tuning.*constant = value;
    return PlanWith(tuning);
  };
  EXPECT_EQ(changed(&FusedTuning::max_threads, 1024).threads, 160);
  EXPECT_EQ(changed(&FusedTuning::max_staged_rows, 2).staged_bytes, 2 * base.staged_bytes);
  EXPECT_EQ(changed(&FusedTuning::max_staged_bytes, 64).variant_count[int(FusedVariant::kInPlace)],
            2);
  EXPECT_EQ(changed(&FusedTuning::max_block_rows, 3).block_rows, 1);
  FusedTuning rows = narrow;
  rows.max_block_rows = 3;
  rows.many_blocks = 20;
  EXPECT_EQ(PlanWith(rows).block_rows, 3);
  rows.many_blocks = 32;
  EXPECT_EQ(PlanWith(rows).block_rows, 2);
}

}  // namespace
}  // namespace endcap
