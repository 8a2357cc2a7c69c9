#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "endcap/box_decode.h"

namespace endcap {

// "8:16x16,22.6x22.6;16:32x32": levels with their stride, and widths and heights, all in pixels.
// "none" is no level.
// Throws kInvalidArgument with the level that cannot be read.
std::vector<AnchorLevel> ReadAnchorGrid(std::string_view text);
std::string WriteAnchorGrid(const std::vector<AnchorLevel>& levels);

}  // namespace endcap
