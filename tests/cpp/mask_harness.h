#pragma once

#include "detection_harness.h"

// Heads with masks.

namespace endcap::testing {

inline constexpr int kCoefficients = 5;
inline constexpr int kMaskClasses = 3;
inline constexpr size_t kMasks = 6;  // positions of the outputs
inline constexpr size_t kMaskSize = 5;

inline PostprocessParams MaskParams(MaskResolution resolution, int height = 152, int width = 160) {
  PostprocessParams params;
  params.head.family = HeadFamily::kYolov8Seg;
  params.head.num_classes = kMaskClasses;
  params.head.mask_coefficients = kCoefficients;
  params.head.prototype_height = height;
  params.head.prototype_width = width;
  params.head.input_height = 608;
  params.head.input_width = 640;
  params.max_detections = 12;
  params.mask_resolution = resolution;
  return params;
}

inline TestImage SegImage(const PostprocessParams& params, uint32_t seed, size_t anchors,
                          bool half = false) {
  const HeadParams& head = params.head;
  RandomHead random(seed);
  auto values = random.Yolov8(kMaskClasses, anchors);
  for (size_t i = 0; i < kCoefficients * anchors; ++i) values.push_back(random.Uniform(-1, 1));
  const auto pixels = static_cast<size_t>(head.prototype_height * head.prototype_width);
  std::vector<float> prototypes(kCoefficients * pixels);
  for (float& value : prototypes) value = random.Uniform(-1, 1);
  return {
      {FloatTensor(values, {4 + kMaskClasses + kCoefficients, static_cast<int64_t>(anchors)}, half),
       FloatTensor(prototypes, {kCoefficients, head.prototype_height, head.prototype_width}, half)},
      kGeometry};
}

inline float& At(TestImage& image, size_t input, size_t place) {
  return reinterpret_cast<float*>(image.head[input].bytes.data())[place];
}

}  // namespace endcap::testing
