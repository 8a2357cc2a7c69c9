#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "endcap/geometry.h"
#include "endcap/implementation.h"

namespace endcap {

// Instance masks of one image from prototypes, as YOLACT (Bolya et al. 2019, arXiv:1904.02689) has
// them: a detection's mask is the sum of the prototypes, each times the detection's coefficient for
// it, where that is greater than 0 (a sum below 1e-20 counts as 0) and inside the detection's box.

// The pixels of a mask.
enum class MaskResolution : int {
  kPrototype,  // those of the prototypes: the box is scaled to them
  kInput,      // those of the model's input: the sums (logits) are interpolated, then compared
  kSource,     // those of the source image: likewise, through the geometry
};

// float32 [count][height][width]. They cover the model's input evenly.
struct MaskPrototypes {
  const float* data = nullptr;
  int count = 0;
  int height = 0;
  int width = 0;
};

struct MaskDetections {
  std::span<const float> coefficients;  // [N][count of prototypes]
  std::span<const float> boxes_xyxy;    // [N][4], in pixels of the model's input
  std::span<const int32_t> indices;     // [N], which candidate each is, for errors; or empty
};

// Logits are interpolated bilinearly between the centres of prototype pixels, first along x, then
// along y; beyond the outermost centres they stay as they are there (PyTorch's interpolate with
// align_corners=False). At source resolution the outermost centres are those inside the picture's
// part of the input, so that no logit of the padding counts.
struct MaskPlan {
  MaskResolution resolution = MaskResolution::kInput;
  int input_height = 0;  // pixels of the model's input
  int input_width = 0;
  const Geometry* geometry = nullptr;  // for kSource; null: the source image is the input
};

struct MaskSize {
  int height = 0;
  int width = 0;

  size_t packed_row_bytes() const noexcept { return (static_cast<size_t>(width) + 7) / 8; }
  size_t packed_bytes() const noexcept { return static_cast<size_t>(height) * packed_row_bytes(); }
  size_t pixels() const noexcept {
    return static_cast<size_t>(height) * static_cast<size_t>(width);
  }
};

// The greatest height or width of a mask, a prototype or an input: so many columns of so many
// pixels can still be numbered in 32 bits, as COCO's run lengths are.
inline constexpr int kMaxMaskSide = 65535;

// The size of every mask of the image. Throws kInvalidArgument for sides outside 1 to kMaxMaskSide
// and a geometry whose scales or image cannot be used.
MaskSize ComputeMaskSize(const MaskPrototypes& prototypes, const MaskPlan& plan);

// Writes a bit for each pixel of each mask, 1 inside: `out` is uint8 [N][height][packed_row_bytes],
// the most significant bit first, as numpy.packbits(axis=-1) lays them. It must hold zeros.
// A pixel x is in a box when x1 <= x < x2. Only the prototype pixels that a box needs are read.
// `implementation` is kScalar, the definition, or kSimd, which gives the same bytes.
// Throws kInvalidArgument as ComputeMaskSize, when lengths do not fit, and for a coefficient or a
// logit that is not finite; `out` is then partly written. Throws kUnsupported for an implementation
// that this machine has not. Thread-safe. Nothing is allocated once the thread has had an image of
// that size.
void WritePackedMasks(const MaskPrototypes& prototypes, const MaskDetections& detections,
                      const MaskPlan& plan, Implementation implementation, uint8_t* out);

// The same as run lengths: rle[n] is COCO's compressed `counts` of a mask with the size of
// ComputeMaskSize, what pycocotools.mask.encode gives for it. Replaces `rle`. No mask is ever there
// pixel by pixel: the simd implementation finds the ends of runs between prototype pixels.
// Throws as WritePackedMasks, and kImageLimit where all strings of the image would take more than
// kMaxRleBytes.
inline constexpr size_t kMaxRleBytes = size_t{256} << 20;
void EncodeMasks(const MaskPrototypes& prototypes, const MaskDetections& detections,
                 const MaskPlan& plan, Implementation implementation,
                 std::vector<std::string>& rle);

// COCO's compressed `counts` of a mask whose pixels (0: outside) are given column after column.
// Throws kInvalidArgument for 2^32 pixels or more.
std::string EncodeRle(std::span<const uint8_t> columns);

// The pixels, 0 or 1, of such a string. Throws kInvalidArgument when it is no run lengths or they
// are not those of so many pixels.
void DecodeRle(std::string_view rle, std::span<uint8_t> columns);

}  // namespace endcap
