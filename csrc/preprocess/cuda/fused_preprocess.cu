#include <algorithm>
#include <type_traits>

#include "cuda_runtime/launch.h"
#include "preprocess/cuda/fused_copy.cuh"
#include "preprocess/cuda/fused_filter.cuh"
#include "preprocess/cuda/fused_launch.h"
#include "preprocess/cuda/fused_rows.cuh"
#include "preprocess/cuda/fused_span.h"
#include "preprocess/cuda/fused_store.cuh"

// A block makes a run of columns of a few rows of one tensor, each thread a quad of columns. It
// reads the source's rows that have a weight, a few at a time, into shared memory, all threads
// together; then each thread adds them to its sums.

namespace endcap {
namespace {

// Blocks of the largest size that share a multiprocessor at least, as many as registers allow
// without spilling.
constexpr int MinBlocks(ResizeArithmetic arithmetic, FusedVariant variant) {
  return variant == FusedVariant::kCopied && arithmetic != ResizeArithmetic::kOpencvFloat8 ? 3 : 2;
}

// Rows of the tensor that a block makes.
ENDCAP_HOST_DEVICE constexpr int BlockRows(const FusedLaunch& launch, FusedVariant variant) {
  return FusedBuffers(variant) == 1 ? 1 : launch.block_rows;
}

// Columns [x, x + 4) of a row, where they hold nothing of the image.
__device__ void StoreEmptyRow(const FusedLaunch& launch, const QuadTarget& target, bool blank,
                              int y) {
  QuadElements elements;
#pragma unroll
  for (int c = 0; c < kColors; ++c) {
#pragma unroll
    for (int i = 0; i < kQuad; ++i) elements[c][i] = blank ? 0 : launch.padding[c];
  }
  WithElementBytes(launch.dtype, [&](auto bytes) {
    StoreQuad<decltype(bytes)::value>(launch, target, y, elements);
  });
}

// Columns [x, x + 4) of visible row `v`, by their sums; those outside the window are padding.
template <typename Filter>
__device__ void StoreSums(const FusedLaunch& launch, const QuadTarget& target, int v,
                          const Filter& filter, const QuadSums<Filter>& sums) {
  QuadNumbers<typename Filter::Number> numbers;
#pragma unroll
  for (int i = 0; i < kQuad; ++i) {
#pragma unroll
    for (int c = 0; c < kColors; ++c) {
      const auto sum = target.swap_red_blue ? sums[i][kColors - 1 - c] : sums[i][c];
      numbers[i][c] = filter.Finish(sum, target.sum_scale);
    }
  }
  WithElementBytes(launch.dtype, [&](auto bytes) {
    constexpr int kBytes = decltype(bytes)::value;
    QuadElements elements;
    NormalizeQuad<kBytes>(launch, numbers, elements);
    if (!target.whole) {
#pragma unroll
      for (int i = 0; i < kQuad; ++i) {
        const bool inside = static_cast<unsigned>(target.column + i) < target.columns;
#pragma unroll
        for (int c = 0; c < kColors; ++c) {
          elements[c][i] = inside ? elements[c][i] : launch.padding[c];
        }
      }
    }
    StoreQuad<kBytes>(launch, target, v + target.out_y, elements);
  });
}

// Rows [begin, end) of the tensor, which are visible; x may lie beyond the tensor. `block`: the
// visible quads of this block's columns.
template <typename Filter, FusedVariant kVariant>
__device__ void MakeRows(const FusedLaunch& launch, const FusedImage& image, int x, int begin,
                         int end, const FusedQuads& block) {
  const FusedQuads quads = VisibleQuads(image.out_x, image.visible_w);
  const bool visible = x / kQuad >= block.first && x / kQuad < block.end;
  const int first_quad = block.first - quads.first;
  const int end_quad = block.end - quads.first;

  // Positions count bytes in shared memory, else pixels.
  constexpr int kUnit = kVariant == FusedVariant::kInPlace ? 1 : StagedSampleBytes(kVariant);
  const int column = visible ? x - kQuad * quads.first : kQuad * first_quad;
  const bool flip = image.swap_axes ? image.from_bottom : image.from_right;
  const FusedAxis& axis = image.columns;
  const int32_t* first = launch.tables + axis.first;
  const FusedSpan span =
      ComputeSpan(axis, first[kQuad * first_quad], first[kQuad * end_quad - 1], flip);
  const int last = axis.samples - 1;
  const QuadColumns columns{*reinterpret_cast<const int4*>(first + column),
                            launch.tables + axis.weight + column,
                            kQuad * (quads.end - quads.first),
                            axis.taps,
                            last,
                            kUnit * (flip ? last - span.base : -span.base),
                            flip ? -kUnit : kUnit};

  Filter filter(columns);
  const int first_v = begin - image.out_y;
  if constexpr (kVariant == FusedVariant::kCopied) {
    const QuadTarget target(image, x);
    SumCopiedRows(
        launch, image, first_v, end - image.out_y, span, visible, filter,
        [&](int v, const QuadSums<Filter>& sums) { StoreSums(launch, target, v, filter, sums); });
  } else {
    QuadSums<Filter> sums;
    Clear(filter, sums);
    if constexpr (kVariant == FusedVariant::kInPlace) {
      if (visible) SumRowsInPlace(launch, image, first_v, span, filter, sums);
    } else {
      SumStagedRows(launch, image, first_v, span, visible, filter, sums);
    }
    if (visible) StoreSums(launch, {image, x}, first_v, filter, sums);
  }
}

template <ResizeArithmetic kArithmetic, FusedVariant kVariant>
__device__ void MakeRowsBy(const FusedLaunch& launch, const FusedImage& image, int x, int begin,
                           int end, const FusedQuads& block) {
  using Opencv8 = Opencv8Filter<kVariant == FusedVariant::kCopied>;
  if constexpr (kArithmetic == ResizeArithmetic::kOpencv8) {
    MakeRows<Opencv8, kVariant>(launch, image, x, begin, end, block);
  } else if constexpr (kArithmetic == ResizeArithmetic::kPillow8) {
    MakeRows<TapFilter<Pillow8Arithmetic>, kVariant>(launch, image, x, begin, end, block);
  } else if constexpr (kArithmetic == ResizeArithmetic::kFloat) {
    MakeRows<TapFilter<FloatArithmetic>, kVariant>(launch, image, x, begin, end, block);
  } else if (image.fixed_weights) {
    MakeRows<Opencv8, kVariant>(launch, image, x, begin, end, block);
  } else {
    MakeRows<TapFilter<OpencvFloat8Arithmetic>, kVariant>(launch, image, x, begin, end, block);
  }
}

template <ResizeArithmetic kArithmetic, FusedVariant kVariant>
__global__ void __launch_bounds__(kFusedMaxThreads, MinBlocks(kArithmetic, kVariant))
    FusedKernel(const __grid_constant__ FusedLaunch launch) {
  // Of an image in registers nothing is read again after a store, which a block of several rows
  // gains from; for the others they would be too many.
  using Image =
      std::conditional_t<kVariant == FusedVariant::kCopied, const FusedImage, const FusedImage&>;
  Image image = launch.images[blockIdx.z];
  if (image.variant != kVariant) return;  // another kernel's
  const int x = kQuad * static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int rows = BlockRows(launch, kVariant);
  const int begin = static_cast<int>(blockIdx.y) * rows;
  const int end = min(begin + rows, launch.height);
  const bool blank = image.source == FusedSource::kBlank;
  const int visible_begin = blank ? end : min(max(begin, image.out_y), end);
  const int visible_end = blank ? end : max(min(end, image.out_y + image.visible_h), visible_begin);
  const FusedQuads quads = VisibleQuads(image.out_x, image.visible_w);
  const auto first_quad = static_cast<int>(blockIdx.x * blockDim.x);
  const FusedQuads block = {max(first_quad, quads.first),
                            min(first_quad + static_cast<int>(blockDim.x), quads.end)};
  const bool beside = x / kQuad < block.first || x / kQuad >= block.end;
#pragma unroll 1
  for (int y = begin; x < launch.width && y < end; ++y) {
    if (!beside && y >= visible_begin && y < visible_end) continue;
    StoreEmptyRow(launch, {image, x}, blank, y);
  }
  if (visible_begin < visible_end && block.first < block.end) {
    MakeRowsBy<kArithmetic, kVariant>(launch, image, x, visible_begin, visible_end, block);
  }
}

using Kernel = void (*)(FusedLaunch);

template <FusedVariant kVariant>
Kernel KernelFor(ResizeArithmetic arithmetic) {
  switch (arithmetic) {
    case ResizeArithmetic::kOpencv8:
      return FusedKernel<ResizeArithmetic::kOpencv8, kVariant>;
    case ResizeArithmetic::kOpencvFloat8:
      return FusedKernel<ResizeArithmetic::kOpencvFloat8, kVariant>;
    case ResizeArithmetic::kPillow8:
      return FusedKernel<ResizeArithmetic::kPillow8, kVariant>;
    case ResizeArithmetic::kFloat:
      break;
  }
  return FusedKernel<ResizeArithmetic::kFloat, kVariant>;
}

// Rows for each block, as long as all blocks of the launch are at least as many as the device holds
// at a time.
int ChooseBlockRows(Kernel kernel, const FusedLaunch& launch, int64_t blocks_of_one_row) {
  int device = 0;
  int multiprocessors = 0;
  int resident = 0;
  Check(cudaGetDevice(&device), "cudaGetDevice");
  Check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
        "cudaDeviceGetAttribute");
  Check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, launch.threads,
                                                      static_cast<size_t>(launch.staged_bytes)),
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  const int64_t rows = blocks_of_one_row / std::max(resident * multiprocessors, 1);
  return static_cast<int>(std::clamp<int64_t>(rows, 1, kFusedMaxBlockRows));
}

// What a grid's third dimension may be.
constexpr int kMaxImagesPerGrid = 65535;

}  // namespace

void LaunchFused(const FusedLaunch& launch, void* stream) {
  const int columns_per_block = kQuad * launch.threads;
  const auto tiles =
      static_cast<unsigned>((launch.width + columns_per_block - 1) / columns_per_block);
  for (int first = 0; first < launch.image_count; first += kMaxImagesPerGrid) {
    FusedLaunch part = launch;
    part.images += first;
    part.image_count = std::min(launch.image_count - first, kMaxImagesPerGrid);
    const auto run = [&](Kernel kernel, FusedVariant variant) {
      if (launch.variant_count[static_cast<int>(variant)] == 0) return;
      if (variant == FusedVariant::kCopied && launch.block_rows == 0) {
        part.block_rows =
            ChooseBlockRows(kernel, part, int64_t{tiles} * part.height * part.image_count);
      }
      const int rows = BlockRows(part, variant);
      const dim3 grid(tiles, static_cast<unsigned>((launch.height + rows - 1) / rows),
                      static_cast<unsigned>(part.image_count));
      const auto shared =
          static_cast<size_t>(variant == FusedVariant::kInPlace ? 0 : launch.staged_bytes);
      Launch(kernel, grid, dim3(static_cast<unsigned>(launch.threads)), shared,
             static_cast<cudaStream_t>(stream), part);
    };
    run(KernelFor<FusedVariant::kCopied>(launch.arithmetic), FusedVariant::kCopied);
    run(KernelFor<FusedVariant::kStaged>(launch.arithmetic), FusedVariant::kStaged);
    run(KernelFor<FusedVariant::kInPlace>(launch.arithmetic), FusedVariant::kInPlace);
  }
}

}  // namespace endcap
