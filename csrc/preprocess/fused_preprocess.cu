#include "cuda/launch.h"
#include "preprocess/fused_filter.cuh"
#include "preprocess/fused_launch.h"
#include "preprocess/fused_source.cuh"
#include "preprocess/fused_span.h"
#include "preprocess/fused_store.cuh"

// A block makes a run of columns of one row of one tensor, each thread a quad of them. It reads the
// source's rows that have a weight, a few at a time, into shared memory, all threads together; then
// each thread adds them to its sums.

namespace endcap {
namespace {

// Blocks of the largest size that share a multiprocessor: 80 registers a thread, the fewest that
// spill nothing.
constexpr int kMinBlocks = 3;

// The source's rows that make one row of the tensor, as the upright image has them.
struct RowTaps {
  int first;
  const int32_t* weight;
  int taps;
  int samples;
  bool flip;

  // Where row `tap` is stored, along the rows' axis.
  __device__ int Stored(int tap) const {
    const int sample = ClampSample(first + tap, samples);
    return flip ? samples - 1 - sample : sample;
  }
};

// Reads rows [begin, begin + count) of `rows` into shared memory, each `pitch` pixels after the
// other.
template <typename Filter>
__device__ void StageRows(const FusedLaunch& launch, const FusedImage& image, const RowTaps& rows,
                          int begin, int count, const FusedSpan& span, int pitch,
                          uint32_t* shared) {
  const bool gray = launch.channels == 1;
  const int step = image.swap_axes ? 1 : kFusedGroup;
  const int threads = static_cast<int>(blockDim.x) * step;
  int row = 0;
  for (int i = static_cast<int>(threadIdx.x) * step;; i += threads) {
    for (; row < count && i >= pitch; i -= pitch) ++row;
    if (row >= count) return;
    if (i >= span.count || Filter::IsZero(rows.weight[begin + row])) continue;
    uint32_t* to = shared + row * pitch + i;
    const int across = rows.Stored(begin + row);
    if (image.swap_axes) {
      *to = FetchPixel(image, gray, across, span.base + i);
    } else {
      StageGroup(image, gray, span.base + i, across, to);
    }
  }
}

// Adds up the rows of a visible row of the tensor. kStaged: through shared memory; else each thread
// reads the pixels that it needs in place, for images too wide for that.
template <typename Filter, bool kStaged>
__device__ void SumRows(const FusedLaunch& launch, const FusedImage& image, const RowTaps& rows,
                        const FusedSpan& span, const QuadColumns& columns, bool visible,
                        typename Filter::Sum (&sums)[kQuad][kColors]) {
  const Filter filter(columns);
  if constexpr (kStaged) {
    ENDCAP_DYNAMIC_SHARED(bytes);
    auto* shared = reinterpret_cast<uint32_t*>(bytes);
    const int pitch = span.pitch();
    const int staged = min(min(launch.staged_pixels / pitch, kFusedMaxStagedRows), rows.taps);
#pragma unroll 1
    for (int begin = 0; begin < rows.taps; begin += staged) {
      const int count = min(staged, rows.taps - begin);
      if (begin != 0) __syncthreads();
      StageRows<Filter>(launch, image, rows, begin, count, span, pitch, shared);
      __syncthreads();
#pragma unroll 1
      for (int k = 0; visible && k < count; ++k) {
        const int32_t weight = rows.weight[begin + k];
        if (Filter::IsZero(weight)) continue;
        const uint32_t* row = shared + k * pitch;
        filter.AddRow([row](int position) { return row[position]; }, weight, sums);
      }
    }
  } else {
    const bool gray = launch.channels == 1;
#pragma unroll 1
    for (int k = 0; visible && k < rows.taps; ++k) {
      if (Filter::IsZero(rows.weight[k])) continue;
      const int across = rows.Stored(k);
      const auto read = [&](int position) {
        const int along = span.base + position;
        return FetchPixel(image, gray, image.swap_axes ? across : along,
                          image.swap_axes ? along : across);
      };
      filter.AddRow(read, rows.weight[k], sums);
    }
  }
}

// The elements of four columns of a visible row; those outside the window are padding.
template <typename Filter, int kBytes>
__device__ void StoreSums(const FusedLaunch& launch, const FusedImage& image, int x, int y,
                          const typename Filter::Sum (&sums)[kQuad][kColors]) {
  QuadElements elements;
#pragma unroll
  for (int i = 0; i < kQuad; ++i) {
    const int u = x + i - image.out_x;
    const bool inside = u >= 0 && u < image.visible_w;
#pragma unroll
    for (int c = 0; c < kColors; ++c) {
      const auto sum = image.swap_red_blue ? sums[i][kColors - 1 - c] : sums[i][c];
      const uint32_t element = Normalize<kBytes>(launch, c, Filter::Finish(sum, image.sum_scale));
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

// Columns [x, x + 4) of a visible row; x may lie beyond the tensor. False where none is visible,
// and nothing was stored.
template <typename Filter, bool kStaged>
__device__ bool MakeQuad(const FusedLaunch& launch, const FusedImage& image, int x, int y) {
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
  SumRows<Filter, kStaged>(launch, image, rows, span, columns, visible, sums);
  if (!visible) return false;
  switch (SizeOf(launch.dtype)) {
    case 1:
      StoreSums<Filter, 1>(launch, image, x, y, sums);
      break;
    case 2:
      StoreSums<Filter, 2>(launch, image, x, y, sums);
      break;
    default:
      StoreSums<Filter, 4>(launch, image, x, y, sums);
  }
  return true;
}

template <ResizeArithmetic kArithmetic, bool kStaged>
__device__ bool MakeQuadBy(const FusedLaunch& launch, const FusedImage& image, int x, int y) {
  if constexpr (kArithmetic == ResizeArithmetic::kOpencv8) {
    return MakeQuad<Opencv8Filter, kStaged>(launch, image, x, y);
  } else if constexpr (kArithmetic == ResizeArithmetic::kPillow8) {
    return MakeQuad<Pillow8Filter, kStaged>(launch, image, x, y);
  } else if constexpr (kArithmetic == ResizeArithmetic::kFloat) {
    return MakeQuad<FloatFilter, kStaged>(launch, image, x, y);
  } else if (image.fixed_weights) {
    return MakeQuad<Opencv8Filter, kStaged>(launch, image, x, y);
  } else {
    return MakeQuad<OpencvFloat8Filter, kStaged>(launch, image, x, y);
  }
}

template <ResizeArithmetic kArithmetic, bool kStaged>
__global__ void __launch_bounds__(kFusedMaxThreads, kMinBlocks)
    FusedKernel(const __grid_constant__ FusedLaunch launch) {
  const FusedImage& image = launch.images[blockIdx.z];
  const int x = kQuad * static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const auto y = static_cast<int>(blockIdx.y);
  const bool in_window =
      image.source != FusedSource::kBlank && y >= image.out_y && y < image.out_y + image.visible_h;
  const bool made = in_window && MakeQuadBy<kArithmetic, kStaged>(launch, image, x, y);
  if (made || x >= launch.width) return;
  switch (SizeOf(launch.dtype)) {
    case 1:
      return StoreEmpty<1>(launch, image, x, y);
    case 2:
      return StoreEmpty<2>(launch, image, x, y);
    default:
      return StoreEmpty<4>(launch, image, x, y);
  }
}

using Kernel = void (*)(FusedLaunch);

template <bool kStaged>
Kernel KernelFor(ResizeArithmetic arithmetic) {
  switch (arithmetic) {
    case ResizeArithmetic::kOpencv8:
      return FusedKernel<ResizeArithmetic::kOpencv8, kStaged>;
    case ResizeArithmetic::kOpencvFloat8:
      return FusedKernel<ResizeArithmetic::kOpencvFloat8, kStaged>;
    case ResizeArithmetic::kPillow8:
      return FusedKernel<ResizeArithmetic::kPillow8, kStaged>;
    case ResizeArithmetic::kFloat:
      break;
  }
  return FusedKernel<ResizeArithmetic::kFloat, kStaged>;
}

// What a grid's third dimension may be.
constexpr int kMaxImagesPerGrid = 65535;

}  // namespace

void LaunchFused(const FusedLaunch& launch, void* stream) {
  const int columns_per_block = kQuad * launch.threads;
  const auto tiles =
      static_cast<unsigned>((launch.width + columns_per_block - 1) / columns_per_block);
  const size_t shared_bytes = sizeof(uint32_t) * static_cast<size_t>(launch.staged_pixels);
  const Kernel kernel = launch.staged_pixels > 0 ? KernelFor<true>(launch.arithmetic)
                                                 : KernelFor<false>(launch.arithmetic);
  for (int first = 0; first < launch.image_count; first += kMaxImagesPerGrid) {
    FusedLaunch part = launch;
    part.images += first;
    part.image_count = std::min(launch.image_count - first, kMaxImagesPerGrid);
    const dim3 grid(tiles, static_cast<unsigned>(launch.height),
                    static_cast<unsigned>(part.image_count));
    Launch(kernel, grid, dim3(static_cast<unsigned>(launch.threads)), shared_bytes,
           static_cast<cudaStream_t>(stream), part);
  }
}

}  // namespace endcap
