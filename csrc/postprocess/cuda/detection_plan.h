#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "endcap/postprocess.h"
#include "postprocess/cuda/detection_launch.h"

namespace endcap {

// The host part of the CUDA device: checks, sizes and the arguments of kernels. Calls no CUDA
// function.

// Throws kInvalidArgument or kUnsupported for inputs[i] whose tensors do not fit the parameters, or
// are in another GPU's memory. Inputs whose status is not 0 are not looked at.
void CheckDetectionInputs(const PostprocessParams& params, std::span<const PostprocessInput> inputs,
                          int device_id);

// Heads in CPU memory are put one behind the other, in the order of the inputs, and copied at once.
size_t StagedBytes(std::span<const PostprocessInput> inputs);
void StageHeads(std::span<const PostprocessInput> inputs, uint8_t* staged);

// How a batch is cut into launches. Their scratch is the same memory, one launch after the other:
// states, keys and kept boxes of every image.
struct DetectionGroups {
  size_t images;  // of a launch, at most
  uint32_t key_capacity;
  uint32_t kept_capacity;
  size_t kept_bytes;           // of each image: kept boxes, or what RotatedScratchBytes says
  RotatedScratchSize rotated;  // of rotated NMS
  size_t keys_at, kept_at, anchors_at, rows_at, limits_at;  // bytes from the start
  size_t bytes;
};

// Scratch stays below 256 MiB, unless one image takes more.
DetectionGroups PlanGroups(const PostprocessParams& params,
                           std::span<const PostprocessInput> inputs);

// Where the device memory of a call is.
struct DetectionMemory {
  uint8_t* scratch;                     // DetectionGroups::bytes, 256-byte aligned
  const uint8_t* staged;                // the next image's staged heads; moved on
  DetectionRecord* records;             // the next image's record; moved on. Or null
  RunLengthMemory runs;                 // for one launch; all null: not wanted
  const float* class_limits = nullptr;  // of FillClassLimits, in host memory; null: empty
};

// One launch, for at most groups.images images.
DetectionLaunch MakeDetectionLaunch(const PostprocessParams& params, const DetectionGroups& groups,
                                    std::span<const PostprocessInput> inputs,
                                    std::span<const PostprocessOutput> outputs,
                                    DetectionMemory& memory);

// What the CPU implementation would say of the image.
PostprocessItem MakeItem(const HeadParams& params, const DetectionRecord& record);

}  // namespace endcap
