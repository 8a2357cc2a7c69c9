#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "common/fail.h"
#include "endcap/decode.h"

// EXIF orientation: read from the file, and applied to decoded pixels.

namespace endcap {
namespace {

constexpr uint64_t kExifPrefix = 0x457869660000;  // "Exif\0\0"
constexpr size_t kExifPrefixBytes = 6;
constexpr uint64_t kOrientationTag = 0x0112;
constexpr size_t kHeaderBytes = 8;
constexpr size_t kEntryBytes = 12;

// Types of values. Source: TIFF 6.0, section 2; IFD and LONG8 are of its supplements.
enum TiffType : size_t {
  kByte = 1,
  kAscii = 2,
  kRational = 5,
  kUndefined = 7,
  kSrational = 10,
  kFloat = 11,
  kDouble = 12,
};
// Bytes of a value of each type; 0: an unknown type.
constexpr std::array<uint8_t, 17> kTypeBytes = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4, 0, 0, 8};

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

// A TIFF structure in the parts of an Exif block.
class TiffBlock {
 public:
  explicit TiffBlock(std::span<const std::span<const uint8_t>> parts) : parts_(parts) {
    for (const auto& part : parts) size_ += part.size();
  }

  // Bytes after the prefixes.
  uint64_t size() const noexcept { return size_; }

  // Skips the prefixes and sets the order of bytes. Returns whether a TIFF structure follows.
  bool ReadFileHeader() noexcept {
    for (int i = 0; i < 2 && size_ >= kExifPrefixBytes; ++i) {
      if (Number(0, kExifPrefixBytes) != kExifPrefix) break;
      begin_ += kExifPrefixBytes;
      size_ -= kExifPrefixBytes;
    }
    const uint64_t order = Number(0, 2);
    const uint64_t magic = Number(2, 2);
    big_endian_ = order == 0x4D4D;                                       // "MM"
    return size_ >= kHeaderBytes && (big_endian_ || order == 0x4949) &&  // "II"
           (magic == 0x002A || magic == 0x2A00);
  }

  // The number in `bytes` bytes at an offset; past the end are zeros.
  uint64_t Number(uint64_t offset, size_t bytes) const noexcept {
    uint64_t number = 0;
    for (size_t i = 0; i < bytes; ++i) {
      number = (number << 8) | At(offset + (big_endian_ ? i : bytes - 1 - i));
    }
    return number;
  }

  // The first value of an entry. Negative numbers may come as large ones, texts and bytes as 0.
  double Value(uint64_t offset, uint64_t type) const noexcept {
    switch (type) {
      case kByte:
      case kAscii:
      case kUndefined:
        return 0;
      case kRational:
        return static_cast<double>(Number(offset, 4)) / static_cast<double>(Number(offset + 4, 4));
      case kSrational:
        return static_cast<double>(static_cast<int32_t>(Number(offset, 4))) /
               static_cast<double>(static_cast<int32_t>(Number(offset + 4, 4)));
      case kFloat:
        return std::bit_cast<float>(static_cast<uint32_t>(Number(offset, 4)));
      case kDouble:
        return std::bit_cast<double>(Number(offset, 8));
      default:
        return static_cast<double>(Number(offset, kTypeBytes[type]));
    }
  }

 private:
  uint8_t At(uint64_t offset) const noexcept {
    offset += begin_;
    for (const auto& part : parts_) {
      if (offset < part.size()) return part[offset];
      offset -= part.size();
    }
    return 0;
  }

  std::span<const std::span<const uint8_t>> parts_;
  uint64_t begin_ = 0;  // of the TIFF structure
  uint64_t size_ = 0;
  bool big_endian_ = true;
};

}  // namespace

int ReadExifOrientation(std::span<const std::span<const uint8_t>> parts) noexcept {
  TiffBlock block(parts);
  if (!block.ReadFileHeader()) return 1;
  const uint64_t directory = block.Number(4, 4);
  const uint64_t entry_count = block.Number(directory, 2);
  uint64_t values_bytes = 0;  // of values outside of their entries
  for (uint64_t i = 0; i < entry_count; ++i) {
    const uint64_t entry = directory + 2 + kEntryBytes * i;
    if (entry + kEntryBytes > block.size()) break;
    const uint64_t type = block.Number(entry + 2, 2);
    const uint64_t count = block.Number(entry + 4, 4);
    if (type >= kTypeBytes.size() || kTypeBytes[type] == 0 || count == 0) continue;
    const uint64_t bytes = count * kTypeBytes[type];
    uint64_t values = entry + 8;
    if (bytes > 4) {
      values_bytes += bytes;
      if (values_bytes > block.size()) continue;
      values = block.Number(values, 4);
      if (values + bytes > block.size()) break;
    }
    if (block.Number(entry, 2) != kOrientationTag) continue;
    const double value = block.Value(values, type);
    for (int orientation = 2; orientation <= 8; ++orientation) {
      if (value == orientation) return orientation;
    }
    break;
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
