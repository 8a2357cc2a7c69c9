#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "common/score_order.h"
#include "endcap/box_decode.h"
#include "endcap/postprocess.h"
#include "postprocess/map_extras.h"

namespace endcap {

// Throws kInvalidArgument for a view whose dtype or shape differs from `specs`, which are those of
// PostprocessOutputs, or which is not memory of `device`.
void CheckOutputs(std::span<const TensorSpec> specs, const PostprocessOutput& output, size_t item,
                  DeviceId device);

// The output at a position of map_extras.h; null: skipped.
template <typename T>
T* Output(const PostprocessOutput& output, size_t position) {
  return static_cast<T*>(output.tensors[position].data);
}

// No detection, no class: zeros, -1 in detection_indices and class_ids, and the item's status.
void WriteEmpty(const PostprocessParams& params, const PostprocessOutput& output, int32_t status);

// Writes the candidates `kept`, best first, with their boxes mapped by `geometry` (null: as they
// are; rotated boxes are WriteRotatedBoxes' affair). The rows beyond must have been emptied.
// Returns how many were written.
int WriteDetections(const PostprocessParams& params, const Candidates& candidates,
                    std::span<const int64_t> kept, const Geometry* geometry,
                    const PostprocessOutput& output);

void WriteClasses(const ClassScores& classes, const PostprocessOutput& output);

// Writes a semantic head's outputs, those that `output` wants.
void WriteClassMap(const PostprocessParams& params, const PostprocessInput& input,
                   const PostprocessOutput& output);

// Memory that a thread keeps from item to item.
struct ExtraScratch {
  std::vector<int32_t> indices;
  std::vector<float> values;
  std::vector<float> boxes;  // with angles: xywhr of every candidate; with masks: xyxy of the kept
  std::vector<float> prototypes;  // or the logits of the kept queries' masks

  void Trim() { TrimScratch(values, boxes, prototypes); }
};

// One image's detections, after suppression.
struct KeptDetections {
  const Candidates& candidates;
  std::span<const int64_t> kept;  // those that have been written as rows
  const Geometry* geometry;       // as for WriteDetections
};

// Writes the family's own outputs for the detections. Throws as ReadExtras and EncodeMasks.
void WriteExtras(const PostprocessParams& params, const PostprocessInput& input,
                 const KeptDetections& detections, ExtraScratch& scratch,
                 const PostprocessOutput& output);

KeypointRule MakeKeypointRule(const HeadParams& head);

using RunTiles = std::function<std::vector<PostprocessItem>(std::span<const PostprocessInput> tiles,
                                                            std::span<const PostprocessOutput>)>;

// Runs an image's tiles as images, and merges their detections into `output`. Times: that of the
// tiles is box_decode_ns, that of the merging nms_ns.
PostprocessItem MergeTiles(const PostprocessParams& params, const PostprocessInput& image,
                           const PostprocessOutput& output, const RunTiles& run);

}  // namespace endcap
