#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "endcap/box_decode.h"
#include "endcap/postprocess.h"
#include "postprocess/keypoint.h"

namespace endcap {

// Throws kInvalidArgument when a view's dtype or shape is not what `specs`, from
// PostprocessOutputs, says, or when it is not memory of `device`.
void CheckOutputs(std::span<const TensorSpec> specs, const PostprocessOutput& output, size_t item,
                  Device device = Device::kCpu, int device_id = 0);

// Zeros everywhere, -1 in detection_indices and class_ids: no detection, no class.
void WriteEmpty(const PostprocessParams& params, const PostprocessOutput& output);

// Positions of the boxes, and of the family's own first output, in the list of a detection family;
// WriteStatus takes the last of any list.
inline constexpr size_t kBoxesAt = 1;
inline constexpr size_t kExtraOutput = 5;

// The last element of every output list: the item's status.
void WriteStatus(const PostprocessOutput& output, int32_t status);

// Writes the candidates `kept`, best first, with their boxes mapped by `geometry` (null: as they
// are; yolov8_obb's boxes are WriteRotatedBoxes' affair). The rows beyond must have been emptied.
// Returns how many were written.
int WriteDetections(const PostprocessParams& params, const Candidates& candidates,
                    std::span<const int64_t> kept, const Geometry* geometry,
                    const PostprocessOutput& output);

KeypointRule MakeKeypointRule(const HeadParams& head);

// Keypoints [N][P][3] of values [N][P * keypoint_values] as ReadExtras gives them: mapped by
// `geometry` (null: as they are). Without a visibility, it is 1.
void WriteKeypoints(const HeadParams& head, std::span<const float> values, const Geometry* geometry,
                    float* keypoints);

void WriteClasses(const ClassScores& classes, const PostprocessOutput& output);

}  // namespace endcap
