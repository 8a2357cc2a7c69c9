#include <algorithm>
#include <array>
#include <cstring>

#include "common/fail.h"
#include "decode/byte_reader.h"
#include "endcap/decode.h"

// EXIF orientation: read from the file, and applied to decoded pixels.

namespace endcap {
namespace {

constexpr char kExifPrefix[] = {'E', 'x', 'i', 'f', '\0', '\0'};
constexpr uint16_t kTiffMagic = 42;
constexpr uint16_t kOrientationTag = 0x0112;
constexpr uint16_t kShortType = 3;
constexpr size_t kEntryBytes = 12;

constexpr std::array<OrientationTransform, 8> kTransforms = {{
    {false, false, false},  // 1 oriented
    {false, true, false},   // 2 mirrored left to right
    {false, true, true},    // 3 upside down
    {false, false, true},   // 4 mirrored top to bottom
    {true, false, false},   // 5 transposed
    {true, false, true},    // 6 to be rotated by 90 degrees clockwise
    {true, true, true},     // 7 transposed along the other diagonal
    {true, true, false},    // 8 to be rotated by 90 degrees counter-clockwise
}};

// Pixels of a tile's side: 32 rows of the source, which are read across, stay in the first-level
// cache.
constexpr int kTile = 32;

// Copies width x height pixels to dense rows; pixel (x, y) is at x * step_right + y * step_down
// of `from`.
template <int kChannels>
void CopyTransformed(const uint8_t* from, ptrdiff_t step_right, ptrdiff_t step_down, int width,
                     int height, uint8_t* to) {
  for (int tile_y = 0; tile_y < height; tile_y += kTile) {
    const int end_y = std::min(tile_y + kTile, height);
    for (int tile_x = 0; tile_x < width; tile_x += kTile) {
      const int count = std::min(kTile, width - tile_x);
      for (int y = tile_y; y < end_y; ++y) {
        const uint8_t* pixel = from + y * step_down + tile_x * step_right;
        uint8_t* out = to + (ptrdiff_t{y} * width + tile_x) * kChannels;
        for (int x = 0; x < count; ++x, pixel += step_right, out += kChannels) {
          std::memcpy(out, pixel, kChannels);
        }
      }
    }
  }
}

}  // namespace

int ReadExifOrientation(const uint8_t* payload, size_t size) noexcept {
  if (size < sizeof(kExifPrefix) + 8) return 1;
  if (std::memcmp(payload, kExifPrefix, sizeof(kExifPrefix)) != 0) return 1;
  return ReadTiffOrientation(payload + sizeof(kExifPrefix), size - sizeof(kExifPrefix));
}

int ReadTiffOrientation(const uint8_t* tiff, size_t size) noexcept {
  if (size < 8) return 1;
  const bool big_endian = tiff[0] == 'M' && tiff[1] == 'M';
  const bool little_endian = tiff[0] == 'I' && tiff[1] == 'I';
  if (!big_endian && !little_endian) return 1;

  ByteReader reader(tiff, size, big_endian);
  reader.Skip(2);
  if (reader.Word() != kTiffMagic) return 1;
  reader.Seek(reader.Long());
  const int entry_count = reader.Word();
  for (int i = 0; i < entry_count && reader.remaining() >= kEntryBytes; ++i) {
    const uint16_t tag = reader.Word();
    const uint16_t type = reader.Word();
    const uint32_t count = reader.Long();
    const uint16_t value = reader.Word();
    reader.Skip(2);
    if (tag != kOrientationTag) continue;
    const bool valid = type == kShortType && count == 1 && value >= 1 && value <= 8;
    return valid ? value : 1;
  }
  return 1;
}

OrientationTransform GetOrientationTransform(int orientation) {
  if (orientation < 1 || orientation > 8) {
    FailArgument("orientation is ", orientation, ": give 1 to 8");
  }
  return kTransforms[static_cast<size_t>(orientation - 1)];
}

PixelBuffer ApplyOrientation(const PixelBuffer& image, int orientation) {
  const OrientationTransform transform = GetOrientationTransform(orientation);
  const ptrdiff_t channels = image.format.channels;
  const ptrdiff_t row_stride = image.format.width * channels;
  const ptrdiff_t step_x = transform.from_right ? -channels : channels;
  const ptrdiff_t step_y = transform.from_bottom ? -row_stride : row_stride;
  const uint8_t* origin = image.pixels.data();
  if (transform.from_right) origin += row_stride - channels;
  if (transform.from_bottom) origin += row_stride * (image.format.height - 1);

  PixelBuffer oriented;
  oriented.format = image.format;
  if (transform.swap_axes) std::swap(oriented.format.width, oriented.format.height);
  oriented.pixels.resize(image.pixels.size());
  const ptrdiff_t step_right = transform.swap_axes ? step_y : step_x;
  const ptrdiff_t step_down = transform.swap_axes ? step_x : step_y;
  const auto copy = channels == 1   ? CopyTransformed<1>
                    : channels == 3 ? CopyTransformed<3>
                                    : CopyTransformed<4>;
  copy(origin, step_right, step_down, oriented.format.width, oriented.format.height,
       oriented.pixels.data());
  return oriented;
}

}  // namespace endcap
