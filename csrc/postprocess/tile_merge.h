#pragma once

#include <functional>
#include <span>
#include <vector>

#include "endcap/postprocess.h"

namespace endcap {

using RunTiles = std::function<std::vector<PostprocessItem>(std::span<const PostprocessInput> tiles,
                                                            std::span<const PostprocessOutput>)>;

// Runs an image's tiles as images, and merges their detections into `output`. Times: that of the
// tiles is box_decode_ns, that of the merging nms_ns.
PostprocessItem MergeTiles(const PostprocessParams& params, const PostprocessInput& image,
                           const PostprocessOutput& output, const RunTiles& run);

}  // namespace endcap
