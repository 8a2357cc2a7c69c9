#include <algorithm>

#include "common/fail.h"
#include "endcap/preprocess.h"
#include "preprocess/pixels/image_source.h"

namespace endcap {
namespace {

// The tiles along one side of an image.
struct TileAxis {
  TileAxis(int image_side, int tile_side, double overlap)
      : length(std::min(tile_side, image_side)),
        last(image_side - length),
        step(tile_side - static_cast<int>(overlap * tile_side)) {}

  int64_t count() const { return 1 + (last + step - 1) / step; }
  float Start(int64_t index) const { return static_cast<float>(std::min(index * step, last)); }

  int length;
  int64_t last;  // where the last one begins
  int64_t step;
};

}  // namespace

std::vector<Roi> ComputeTiles(const PreprocessParams& params, int image_w, int image_h) {
  const TileAxis rows(image_h, params.tile_height, params.tile_overlap);
  const TileAxis columns(image_w, params.tile_width, params.tile_overlap);
  const int64_t parts = rows.count() * columns.count();
  const bool adds_whole = params.tile_full && parts > 1;
  CheckRoiTensors(params, parts + (adds_whole ? 1 : 0));
  std::vector<Roi> tiles;
  for (int64_t i = 0; i < parts; ++i) {
    const float x = columns.Start(i % columns.count());
    const float y = rows.Start(i / columns.count());
    tiles.push_back(
        {x, y, x + static_cast<float>(columns.length), y + static_cast<float>(rows.length)});
  }
  if (adds_whole) {
    tiles.push_back({0.0F, 0.0F, static_cast<float>(image_w), static_cast<float>(image_h)});
  }
  return tiles;
}

std::vector<Roi> ReadTiles(const PreprocessParams& params, ImageView image) {
  if (!params.slices()) FailArgument("tile is 0, which makes no tiles: give its size in pixels");
  ImageHeader header;
  try {
    std::optional<std::vector<uint8_t>> file;
    if (params.base64 == Base64::kAccept) file = DecodeBase64(image, params.limits);
    if (file) image = ImageView::Encoded(file->data(), file->size());
    image.device = Device::kCpu;  // of pixels only the size is read
    header = ReadImageHeader(params, image);
  } catch (const Error&) {
    return {{0.0F, 0.0F, 1.0F, 1.0F}};
  }
  return ComputeTiles(params, header.oriented_width(), header.oriented_height());
}

}  // namespace endcap
