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

// Instance masks of one image from prototypes, as in YOLACT (Bolya et al. 2019, arXiv:1904.02689):
// a detection's mask is where the sum of the prototypes, each times the detection's coefficient for
// it, is greater than 0 (an absolute value below 1e-20 counts as 0), inside the detection's box. Or
// each detection has a prototype to itself, as the queries of RF-DETR-Seg have.

// The pixels of a mask.
enum class MaskResolution : int {
  kPrototype,  // at prototype resolution: the box is scaled to it
  kInput,      // at the model's input resolution: the sums (logits) are interpolated, then compared
  kSource,     // at the source image's resolution: likewise, through the geometry
};

// float32 [count][height][width]; they cover the whole model input.
struct MaskPrototypes {
  const float* data = nullptr;
  int count = 0;
  int height = 0;
  int width = 0;
};

struct MaskDetections {
  // [N][count of prototypes]; or none, then there are N prototypes, and mask n is where prototype n
  // is greater than 0.
  std::span<const float> coefficients;
  std::span<const float> boxes_xyxy;  // [N][4], in pixels of the model's input
  std::span<const int32_t> indices;   // [N], the candidate of each, for error messages; or empty
};

// Logits are interpolated bilinearly between the centres of prototype pixels, first along x, then
// along y; beyond the outermost centres they are constant (PyTorch's interpolate with
// align_corners=False). At source resolution the outermost centres are those inside the image's
// part of the input, so that logits of the padding have no effect.
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

// The greatest height or width of a mask, a prototype or an input: the pixels of a mask of this
// size can still be numbered in 32 bits, as COCO's RLE requires.
inline constexpr int kMaxMaskSide = 65535;

// The size of every mask of the image. Throws kInvalidArgument for sides outside 1 to kMaxMaskSide
// and a geometry whose scales or image cannot be used.
MaskSize ComputeMaskSize(const MaskPrototypes& prototypes, const MaskPlan& plan);

// Writes one bit for each pixel of each mask, 1 inside: `out` is uint8
// [N][height][packed_row_bytes], the most significant bit first, as in numpy.packbits(axis=-1). It
// must hold zeros. A pixel x is in a box when x1 <= x < x2. Only the prototype pixels that a box
// needs are read. `implementation` is kScalar, the definition, or kSimd, with the same bytes.
// Throws kInvalidArgument as ComputeMaskSize, when lengths do not fit, and for a coefficient or a
// logit that is not finite; `out` is then partly written. Throws kUnsupported for an implementation
// that this machine does not have. Thread-safe. Allocates nothing after an image of that size on
// the same thread.
void WritePackedMasks(const MaskPrototypes& prototypes, const MaskDetections& detections,
                      const MaskPlan& plan, Implementation implementation, uint8_t* out);

// The same as run-length encoding (RLE): rle[n] is COCO's compressed `counts` of a mask with the
// size of ComputeMaskSize, equal to pycocotools.mask.encode. Replaces `rle`. The simd
// implementation stores no mask pixel by pixel: it finds the ends of runs between prototype pixels.
// Throws as WritePackedMasks, and kImageLimit if all strings of the image take more than
// kMaxRleBytes.
inline constexpr size_t kMaxRleBytes = size_t{256} << 20;
void EncodeMasks(const MaskPrototypes& prototypes, const MaskDetections& detections,
                 const MaskPlan& plan, Implementation implementation,
                 std::vector<std::string>& rle);

// Returns COCO's compressed `counts` of a mask whose pixels (0: outside) are given in column-major
// order. Throws kInvalidArgument for 2^32 pixels or more.
std::string EncodeRle(std::span<const uint8_t> columns);

// Writes the pixels, 0 or 1, of such a string in column-major order. Throws kInvalidArgument if it
// is not a valid encoding or not one of this many pixels.
void DecodeRle(std::string_view rle, std::span<uint8_t> columns);

}  // namespace endcap
