#pragma once

#include <cuda_runtime.h>

#include "box_decode/cuda/candidate.cuh"
#include "common/map_box.h"
#include "nms/cuda/suppression.cuh"
#include "postprocess/cuda/detection_faults.cuh"
#include "postprocess/cuda/detection_launch.h"

// Shared by the kernels of packed masks and of RLE: where a mask's pixels lie, and the
// sums of prototypes that they are interpolated from. The definition is masks/masks_scalar.cc.

namespace endcap {

// Of one image.
__device__ inline MaskAxes MakeAxes(const MaskBatch& masks, const DetectionImage& image) {
  if (masks.of_source == 0 || !HasGeometry(image)) return masks.axes;
  const Geometry g = ReadGeometry(image);
  return {SourceAxis(masks.axes.x, static_cast<int>(g.image_w), g.scale_x, g.pad_x),
          SourceAxis(masks.axes.y, static_cast<int>(g.image_h), g.scale_y, g.pad_y)};
}

// The pixels of a mask that lie in a box of it.
struct MaskPixels {
  PixelRange columns, rows;

  __device__ bool empty() const { return columns.empty() || rows.empty(); }
};

// box: in pixels of the model's input. axes: MakeAxes of the image.
__device__ inline MaskPixels GetPixels(const MaskBatch& masks, const DetectionImage& image,
                                       const MaskAxes& axes, const float4& box) {
  const float x = masks.box_units[0];
  const float y = masks.box_units[1];
  float xyxy[4] = {box.x * x, box.y * y, box.z * x, box.w * y};
  if (masks.of_source != 0 && HasGeometry(image)) MapBox(ReadGeometry(image), xyxy, xyxy);
  return {PixelsBetween(xyxy[0], xyxy[2], axes.x.pixels),
          PixelsBetween(xyxy[1], xyxy[3], axes.y.pixels)};
}

// The box that a kept detection's mask is cut by: its own, or, of a query, the model's input.
__device__ inline float4 GetMaskBox(const HeadBatch& heads, const DetectionBatch& batch,
                                    size_t kept) {
  if (batch.keypoints.count == 0) {
    return make_float4(0.0F, 0.0F, heads.rule.input_width, heads.rule.input_height);
  }
  return static_cast<const NmsBox*>(batch.kept)[kept].xyxy;
}

// A range's prototype pixels. It is not empty.
__device__ inline PixelRange GetPrototypes(const MaskAxis& axis, const PixelRange& pixels) {
  return {TapAt(axis, pixels.begin).first, TapAt(axis, pixels.end - 1).second + 1};
}

// The prototypes of one image, and the coefficients of one of its detections, or its own mask.
struct MaskSource {
  const HeadImage& head;
  const AnchorValues& values;
  int32_t input;          // MaskBatch::input
  uint32_t coefficients;  // of the anchor; 0: it has its own mask
  const MaskAxes& axes;
  uint32_t anchor;

  // Added in the order of the prototypes.
  __device__ float Logit(uint32_t row, uint32_t column) const {
    const auto width = static_cast<uint64_t>(axes.x.prototypes);
    const uint64_t plane = width * static_cast<uint64_t>(axes.y.prototypes);
    const uint64_t pixel = row * width + column;
    if (coefficients == 0) return SettledLogit(ReadValue(head, input, anchor * plane + pixel));
    float sum = 0.0F;
    for (uint32_t m = 0; m < coefficients; ++m) {
      const uint64_t place = values.At(head.rows, values.first_extra + m, anchor);
      sum += ReadValue(head, 0, place) * ReadValue(head, input, m * plane + pixel);
    }
    return SettledLogit(sum);
  }
};

__device__ inline MaskSource MakeMaskSource(const HeadBatch& heads, const DetectionBatch& batch,
                                            const MaskBatch& masks, const MaskAxes& axes,
                                            uint32_t image, uint32_t detection) {
  return {heads.images[image],
          heads.rule.values,
          masks.input,
          batch.keypoints.count,
          axes,
          batch.kept_anchors[size_t{image} * batch.kept_capacity + detection]};
}

// A logit that is not finite: the first of an image stays, by detection, then by place.
__device__ inline void NoteBadLogit(CandidateState& state, uint32_t detection,
                                    const MaskPlace& place) {
  const uint64_t number = uint64_t{detection} << 32U | place.number();
  // Where a network gives nothing but NaN, nearly all threads come here, and few with a greater
  // one.
  const auto noted =
      __nv_atomic_load_n(&state.bad_logit, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
  if (~number > noted) atomicMax(&state.bad_logit, static_cast<unsigned long long>(~number));
}

}  // namespace endcap
