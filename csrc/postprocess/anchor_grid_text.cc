#include "postprocess/anchor_grid_text.h"

#include "common/param_reader.h"

namespace endcap {
namespace {

constexpr std::string_view kNoLevels = "none";
constexpr size_t kMaxLevels = 64;
constexpr size_t kMaxSizes = 1024;
constexpr double kMaxPixels = 65535.0;

// The text before `mark`, which `rest` loses with the mark; all of it where there is none.
std::string_view TakeUntil(char mark, std::string_view& rest) {
  const size_t end = rest.find(mark);
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return part;
}

double ReadPixels(std::string_view text, double low) {
  return ReadNumber("anchor_grid", text, low, kMaxPixels);
}

AnchorLevel ReadLevel(std::string_view text) {
  std::string_view rest = text;
  const std::string_view stride = TakeUntil(':', rest);
  if (rest.empty()) {
    FailArgument("anchor_grid has the level '", text,
                 "': give its stride, a colon and sizes, for example 8:16x16,32x32");
  }
  AnchorLevel level;
  level.stride = ReadPixels(stride, 1.0);
  while (!rest.empty()) {
    std::string_view height = TakeUntil(',', rest);
    const std::string_view width = TakeUntil('x', height);
    level.sizes.push_back({ReadPixels(width, 0.001), ReadPixels(height, 0.001)});
    if (level.sizes.size() > kMaxSizes) {
      FailArgument("anchor_grid has a level of more than ", kMaxSizes, " sizes");
    }
  }
  return level;
}

}  // namespace

std::vector<AnchorLevel> ReadAnchorGrid(std::string_view text) {
  std::vector<AnchorLevel> levels;
  if (text == kNoLevels) return levels;
  while (!text.empty()) {
    levels.push_back(ReadLevel(TakeUntil(';', text)));
    if (levels.size() > kMaxLevels)
      FailArgument("anchor_grid has more than ", kMaxLevels, " levels");
  }
  return levels;
}

std::string WriteAnchorGrid(const std::vector<AnchorLevel>& levels) {
  if (levels.empty()) return std::string(kNoLevels);
  std::string text;
  for (const AnchorLevel& level : levels) {
    text += (text.empty() ? "" : ";") + WriteNumber(level.stride);
    char mark = ':';
    for (const auto& [width, height] : level.sizes) {
      text += mark + WriteNumber(width) + "x" + WriteNumber(height);
      mark = ',';
    }
  }
  return text;
}

}  // namespace endcap
