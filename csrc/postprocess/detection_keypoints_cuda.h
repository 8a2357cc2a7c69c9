#pragma once

#include "postprocess/detection_rows_cuda.h"

// yolov8_pose's keypoints of one image, by the threads of its block.

namespace endcap {

struct KeypointSource {
  const KeypointColumns& columns;
  const HeadImage& head;
  const uint32_t* anchors;  // of the rows

  __device__ uint64_t values_of_row() const { return uint64_t{columns.count} * columns.values; }
  // Number i of a detection's.
  __device__ float Value(uint32_t row, uint64_t i) const {
    return ReadValue(head, 0, (columns.first_row + i) * head.rows + anchors[row]);
  }
};

// The first number, row after row, that is not finite, into `first_bad`, which holds `none`.
__device__ inline void FindBadKeypoint(const KeypointSource& source, uint32_t rows,
                                       unsigned long long* first_bad) {
  const uint64_t of_row = source.values_of_row();
  for (uint64_t i = threadIdx.x; i < rows * of_row; i += blockDim.x) {
    if (IsFinite(source.Value(static_cast<uint32_t>(i / of_row), i % of_row))) continue;
    atomicMin(first_bad, static_cast<unsigned long long>(i));
    return;
  }
}

__device__ inline DetectionRecord KeypointFault(const KeypointSource& source, uint64_t first_bad) {
  const auto row = static_cast<uint32_t>(first_bad / source.values_of_row());
  const uint64_t value = first_bad % source.values_of_row();
  return Fault(DetectionFault::kExtraNotFinite, source.anchors[row], source.Value(row, value),
               static_cast<double>(source.columns.first_row + value));
}

__device__ inline void WriteKeypointRows(const KeypointSource& source, const DetectionImage& image,
                                         uint32_t rows) {
  const bool mapped = HasGeometry(image);
  const Geometry geometry = mapped ? ReadGeometry(image) : Geometry{};
  const uint64_t points = uint64_t{rows} * source.columns.count;
  for (uint64_t i = threadIdx.x; i < points; i += blockDim.x) {
    const auto row = static_cast<uint32_t>(i / source.columns.count);
    const uint64_t first = i % source.columns.count * source.columns.values;
    float values[3] = {};
    for (uint32_t v = 0; v < source.columns.values; ++v) values[v] = source.Value(row, first + v);
    MakeKeypoint(source.columns.rule, values, mapped ? &geometry : nullptr, image.extra + 3 * i);
  }
}

}  // namespace endcap
