#include <algorithm>
#include <type_traits>

#include "cuda/launch.h"
#include "preprocess/fused_filter.cuh"
#include "preprocess/fused_launch.h"
#include "preprocess/fused_rows.cuh"
#include "preprocess/fused_span.h"
#include "preprocess/fused_store.cuh"

// A block makes a run of columns of one row of one tensor, each thread a quad of them. It reads the
// source's rows that have a weight, a few at a time, into shared memory, all threads together; then
// each thread adds them to its sums.

namespace endcap {
namespace {

// Blocks of the largest size that share a multiprocessor, as many as registers allow without
// spilling: 80 of them a thread; more where one kernel holds two filters, for YUV, and for the rare
// images that are read in place.
constexpr int MinBlocks(ResizeArithmetic arithmetic, FusedWay way) {
  return way == FusedWay::kStaged && arithmetic != ResizeArithmetic::kOpencvFloat8 ? 3 : 2;
}

// What a filter makes of four columns: pixels' numbers, R, G, B as in the tensor.
template <typename Number>
using QuadNumbers = Number[kQuad][kColors];

// Stores four columns of a visible row; those outside the window are padding.
template <int kBytes, typename Number>
__device__ void StoreNumbers(const FusedLaunch& launch, const FusedImage& image, int x, int y,
                             const QuadNumbers<Number>& numbers) {
  QuadElements elements;
#pragma unroll
  for (int i = 0; i < kQuad; ++i) {
    const int u = x + i - image.out_x;
    const bool inside = u >= 0 && u < image.visible_w;
#pragma unroll
    for (int c = 0; c < kColors; ++c) {
      const uint32_t element = Normalize<kBytes>(launch, c, numbers[i][c]);
      elements[c][i] = inside ? element : launch.padding[c];
    }
  }
  StoreQuad<kBytes>(launch, image, x, y, elements);
}

// Four columns that hold nothing of the image.
template <int kBytes>
__device__ void StoreEmpty(const FusedLaunch& launch, const FusedImage& image, int x, int y) {
  QuadElements elements;
#pragma unroll
  for (int c = 0; c < kColors; ++c) {
#pragma unroll
    for (int i = 0; i < kQuad; ++i) {
      elements[c][i] = image.source == FusedSource::kBlank ? 0 : launch.padding[c];
    }
  }
  StoreQuad<kBytes>(launch, image, x, y, elements);
}

// Columns [x, x + 4) of a visible row; x may lie beyond the tensor. False where none is visible.
template <typename Filter, FusedWay kWay>
__device__ bool MakeQuad(const FusedLaunch& launch, const FusedImage& image, int x, int y,
                         QuadNumbers<typename Filter::Number>& numbers) {
  const FusedQuads quads = VisibleQuads(image.out_x, image.visible_w);
  const auto block_quad = static_cast<int>(blockIdx.x * blockDim.x);
  const int begin = max(block_quad, quads.first) - quads.first;
  const int end = min(block_quad + static_cast<int>(blockDim.x), quads.end) - quads.first;
  if (begin >= end) return false;

  const int quad = x / kQuad - quads.first;
  const bool visible = quad >= begin && quad < end;
  const int column = kQuad * (visible ? quad : begin);
  const bool flip_columns = image.swap_axes ? image.from_bottom : image.from_right;
  const bool flip_rows = image.swap_axes ? image.from_right : image.from_bottom;
  const FusedAxis& axis = image.columns;
  const int32_t* first = launch.tables + axis.first;
  const FusedSpan span = SpanOf(axis, first[kQuad * begin], first[kQuad * end - 1], flip_columns);
  const int last = axis.samples - 1;
  const QuadColumns columns{*reinterpret_cast<const int4*>(first + column),
                            launch.tables + axis.weight + column,
                            kQuad * (quads.end - quads.first),
                            axis.taps,
                            last,
                            flip_columns ? last - span.base : -span.base,
                            flip_columns ? -1 : 1};
  const int v = y - image.out_y;
  const RowTaps rows{launch.tables[image.rows.first + v],
                     launch.tables + image.rows.weight + v * image.rows.taps, image.rows.taps,
                     image.rows.samples, flip_rows};

  typename Filter::Sum sums[kQuad][kColors];
#pragma unroll
  for (auto& sum : sums) {
    for (auto& color : sum) color = Filter::Start();
  }
  SumRows<Filter, kWay>(launch, image, rows, span, columns, visible, sums);
  if (!visible) return false;
#pragma unroll
  for (int i = 0; i < kQuad; ++i) {
#pragma unroll
    for (int c = 0; c < kColors; ++c) {
      const auto sum = image.swap_red_blue ? sums[i][kColors - 1 - c] : sums[i][c];
      numbers[i][c] = Filter::Finish(sum, image.sum_scale);
    }
  }
  return true;
}

template <ResizeArithmetic kArithmetic>
using NumberOf = std::conditional_t<kArithmetic == ResizeArithmetic::kFloat, float, uint8_t>;

template <ResizeArithmetic kArithmetic, FusedWay kWay>
__device__ bool MakeQuadBy(const FusedLaunch& launch, const FusedImage& image, int x, int y,
                           QuadNumbers<NumberOf<kArithmetic>>& numbers) {
  if constexpr (kArithmetic == ResizeArithmetic::kOpencv8) {
    return MakeQuad<Opencv8Filter, kWay>(launch, image, x, y, numbers);
  } else if constexpr (kArithmetic == ResizeArithmetic::kPillow8) {
    return MakeQuad<Pillow8Filter, kWay>(launch, image, x, y, numbers);
  } else if constexpr (kArithmetic == ResizeArithmetic::kFloat) {
    return MakeQuad<FloatFilter, kWay>(launch, image, x, y, numbers);
  } else if (image.fixed_weights) {
    return MakeQuad<Opencv8Filter, kWay>(launch, image, x, y, numbers);
  } else {
    return MakeQuad<OpencvFloat8Filter, kWay>(launch, image, x, y, numbers);
  }
}

template <int kBytes, typename Number>
__device__ void Store(const FusedLaunch& launch, const FusedImage& image, int x, int y, bool made,
                      const QuadNumbers<Number>& numbers) {
  if (made) {
    StoreNumbers<kBytes>(launch, image, x, y, numbers);
  } else {
    StoreEmpty<kBytes>(launch, image, x, y);
  }
}

template <ResizeArithmetic kArithmetic, FusedWay kWay>
__global__ void __launch_bounds__(kFusedMaxThreads, MinBlocks(kArithmetic, kWay))
    FusedKernel(const __grid_constant__ FusedLaunch launch) {
  const FusedImage& image = launch.images[blockIdx.z];
  const int x = kQuad * static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const auto y = static_cast<int>(blockIdx.y);
  const bool mine = image.way == kWay;  // else another kernel's
  const bool in_window = mine && image.source != FusedSource::kBlank && y >= image.out_y &&
                         y < image.out_y + image.visible_h;
  QuadNumbers<NumberOf<kArithmetic>> numbers;
  const bool made = in_window && MakeQuadBy<kArithmetic, kWay>(launch, image, x, y, numbers);
  if (!mine || x >= launch.width) return;
  switch (SizeOf(launch.dtype)) {
    case 1:
      return Store<1>(launch, image, x, y, made, numbers);
    case 2:
      return Store<2>(launch, image, x, y, made, numbers);
    default:
      return Store<4>(launch, image, x, y, made, numbers);
  }
}

using Kernel = void (*)(FusedLaunch);

template <FusedWay kWay>
Kernel KernelFor(ResizeArithmetic arithmetic) {
  switch (arithmetic) {
    case ResizeArithmetic::kOpencv8:
      return FusedKernel<ResizeArithmetic::kOpencv8, kWay>;
    case ResizeArithmetic::kOpencvFloat8:
      return FusedKernel<ResizeArithmetic::kOpencvFloat8, kWay>;
    case ResizeArithmetic::kPillow8:
      return FusedKernel<ResizeArithmetic::kPillow8, kWay>;
    case ResizeArithmetic::kFloat:
      break;
  }
  return FusedKernel<ResizeArithmetic::kFloat, kWay>;
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
    const dim3 grid(tiles, static_cast<unsigned>(launch.height),
                    static_cast<unsigned>(part.image_count));
    const auto run = [&](Kernel kernel, int pixels) {
      Launch(kernel, grid, dim3(static_cast<unsigned>(launch.threads)),
             sizeof(uint32_t) * static_cast<size_t>(pixels), static_cast<cudaStream_t>(stream),
             part);
    };
    const auto any = [&](FusedWay way) { return launch.way_count[static_cast<int>(way)] > 0; };
    if (any(FusedWay::kStaged)) {
      run(KernelFor<FusedWay::kStaged>(launch.arithmetic), launch.staged_pixels);
    }
    if (any(FusedWay::kStagedYuv)) {
      run(KernelFor<FusedWay::kStagedYuv>(launch.arithmetic), launch.staged_pixels);
    }
    if (any(FusedWay::kInPlace)) run(KernelFor<FusedWay::kInPlace>(launch.arithmetic), 0);
  }
}

}  // namespace endcap
