#pragma once

#include <cstdint>

#include "common/chroma_upsampling.h"
#include "common/color_conversion.h"
#include "endcap/tensor_view.h"
#include "preprocess/resize/axis_taps.h"
#include "preprocess/tensor/normalize.h"

namespace endcap {

// One launch makes the tensors of a whole batch: images of any sizes and kinds in device memory,
// each to its own output. Plain data; pointers are device pointers.

// What the planes of an image hold.
enum class FusedSource : int32_t {
  kBlank,  // nothing: the tensor becomes zeros
  kRgb,    // interleaved, in plane 0
  kBgr,
  kGray,
  kYuv  // Y, Cb and Cr as an ImageView or a JPEG has them, in the colors that `yuv` says
};

// How a block reads rows. There is a kernel for each variant, so that one does not hold the
// registers of the others; images of several variants take several launches.
enum class FusedVariant : int32_t {
  kCopied,  // into shared memory as they are: kRgb and kBgr, without swapped axes, to three
            // channels
  kStaged,  // into shared memory as pixels of 4 bytes
  kInPlace  // pixel by pixel: a row is wider than what can be staged
};
inline constexpr int kFusedVariants = 3;

// Shared memory holds rows twice where they are copied: those that are summed up, and the next.
constexpr int FusedBuffers(FusedVariant variant) {
  return variant == FusedVariant::kCopied ? 2 : 1;
}

// One axis of an oriented image, as words of FusedLaunch::tables. Tap k of an output reads sample
// first + k, or the nearest that there is. Weights are int32 or the bits of float.
struct FusedAxis {
  int32_t first = 0;   // word of the first output's `first`; one word an output
  int32_t weight = 0;  // word of the first output's weights
  int32_t taps = 0;
  int32_t samples = 0;  // of the source along this axis
};

struct FusedImage {
  void* output = nullptr;
  const uint8_t* planes[3] = {};
  int64_t row_stride_bytes[3] = {};  // may be negative
  FusedSource source = FusedSource::kBlank;
  FusedVariant variant = FusedVariant::kStaged;
  ChromaUpsampling upsampling = ChromaUpsampling::kGray;
  int32_t width = 0;  // pixels as stored
  int32_t height = 0;
  int32_t chroma_width = 0;
  int32_t chroma_height = 0;
  int32_t chroma_step = 1;  // bytes between samples; kYuv only: 2 where Cb and Cr alternate
  YuvCoefficients yuv;      // kYuv only

  // How the stored image lies in the oriented one; see OrientationTransform.
  bool swap_axes = false;
  bool from_right = false;
  bool from_bottom = false;

  bool swap_red_blue = false;  // between source and tensor
  bool fixed_weights = false;  // kOpencvFloat8: this image has 11-bit weights, as kOpencv8
  bool vector_stores = false;  // the output allows stores of four elements
  float sum_scale = 1.0F;      // AxisTaps::sum_scale of the rows
  int32_t out_x = 0;           // the visible window in the tensor
  int32_t out_y = 0;
  int32_t visible_w = 0;
  int32_t visible_h = 0;
  // Columns: an output is a column of the tensor; all those of the quads (four columns, the first a
  // multiple of four) that hold visible ones, so `count` is a multiple of four. Weights by tap: tap
  // k of output i at weight + k * count + i. `first` and `weight` are multiples of four.
  // Rows: an output is a visible row; tap k of output i at weight + i * taps + k.
  FusedAxis columns;
  FusedAxis rows;
};

enum class FusedNormalize : int32_t {
  kSplit,   // 8-bit pixels: SplitNormalize::ApplyFused, then rounded to the element's type
  kTable,   // 8-bit pixels: a table of elements
  kSingle,  // float pixels: SingleNormalize
};

struct FusedLaunch {
  const int32_t* tables = nullptr;
  const FusedImage* images = nullptr;
  int32_t image_count = 0;
  int32_t variant_count[kFusedVariants] = {};  // images of each variant
  int32_t height = 0;                          // of the tensors
  int32_t width = 0;
  int32_t channels = 0;  // 1 or 3
  bool planar = false;   // NCHW
  DType dtype = DType::kFloat32;
  ResizeArithmetic arithmetic = ResizeArithmetic::kOpencv8;
  FusedNormalize normalize = FusedNormalize::kSplit;
  SplitNormalize split[3];
  SingleNormalize single[3];
  const void* table = nullptr;   // kTable: [3][256] elements
  uint32_t padding[3] = {};      // elements' bits
  int32_t threads = 0;           // of a block; each makes a quad of each of its rows
  int32_t block_rows = 0;        // that a block makes where rows are copied; 0: by the device
  int32_t staged_bytes = 0;      // of shared memory that a block has for rows
  int32_t copied_row_bytes = 0;  // from one row in shared memory to the next, where they are copied
};

// Pixels that one thread stages together.
inline constexpr int kFusedGroup = 8;

// Constants that trade registers, shared memory and the number of blocks against each other; they
// do not change results.

// Threads of the largest block, each with four columns of the tensor.
inline constexpr int kFusedMaxThreads = 256;
// Rows of the source that are read between two barriers: more of them wait less often, but leave
// less shared memory for other blocks.
inline constexpr int kFusedMaxStagedRows = 2;
// Bytes of shared memory for these rows: what every GPU gives a block without being asked for more.
inline constexpr int kFusedMaxStagedBytes = 48 << 10;
// Rows of the tensor that a block makes where rows are copied. What it computes once serves all of
// them; more of them leave too few blocks to share among multiprocessors evenly.
inline constexpr int kFusedMaxBlockRows = 4;

// Enqueues the kernel on `stream`, a cudaStream_t of the current device. Throws kCuda. Part of
// libendcap_cuda.so.
void LaunchFused(const FusedLaunch& launch, void* stream);

}  // namespace endcap
