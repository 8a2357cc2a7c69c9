#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "endcap/implementation.h"
#include "endcap/masks.h"
#include "endcap/tensor_view.h"

namespace endcap {

// Semantic segmentation: the class of each pixel of one image, as uint8 [height][width]. `head` is
// what the network gives: logits [C][h][w], float32 or float16, or class ids [h][w], uint8, int32
// or int64.

struct ClassMapPlan {
  MaskPlan mask;
  // The class is chosen at the logits' size, and a pixel takes that of one place there, as
  // PyTorch's interpolate does it with mode="nearest". Class ids are always read so.
  bool nearest = false;
  int num_classes = 0;
  int ignore_label = 255;  // may be among class ids in addition to the classes
};

// A single class has id 1 where its logit is greater than 0; id 0 is elsewhere.
inline int CountMapIds(int num_classes) noexcept { return num_classes == 1 ? 2 : num_classes; }

// Throws as ComputeMaskSize, and kImageLimit for more than 2^28 pixels.
MaskSize ComputeClassMapSize(const ConstTensorView& head, const MaskPlan& plan);

// Writes the class with the greatest of the logits that MaskPlan interpolates for a pixel, the
// lowest of equal ones. kScalar is the definition, kSimd gives the same. Throws kInvalidArgument as
// ComputeClassMapSize, for a logit that is not finite, and for an id that cannot be.
void ComputeClassMap(const ConstTensorView& head, const ClassMapPlan& plan,
                     Implementation implementation, uint8_t* map);

// Writes a PNG file of gray pixels, whose values are the class ids.
void EncodeClassMapPng(const uint8_t* map, const MaskSize& size, std::string& png);

// Writes COCO's compressed RLE of the pixels of each class from 0 to `count` - 1; empty for a class
// without pixels. Throws kImageLimit as EncodeMasks.
void EncodeClassRles(const uint8_t* map, const MaskSize& size, int count,
                     std::vector<std::string>& rles);

}  // namespace endcap
