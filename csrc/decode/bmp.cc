#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <utility>
#include <vector>

#include "common/fail.h"
#include "decode/byte_reader.h"
#include "decode/file_formats.h"

namespace endcap {
namespace {

constexpr size_t kFileHeaderBytes = 14;
constexpr size_t kCoreHeaderBytes = 12;
constexpr size_t kInfoHeaderBytes = 40;
constexpr size_t kColorMaskHeaderBytes = 52;  // with masks of red, green and blue inside
constexpr size_t kAlphaMaskHeaderBytes = 56;
constexpr size_t kOs2HeaderBytes = 64;
constexpr size_t kRgbaChannels = 4;

enum Compression : uint32_t {
  kNone = 0,
  kRle8 = 1,
  kRle4 = 2,
  kMasks = 3,
  kJpegInside = 4,
  kPngInside = 5,
  kMasksWithAlpha = 6,
};

size_t RowStride(int width, unsigned bits) {
  return (static_cast<size_t>(width) * bits + 31) / 32 * 4;
}

struct BmpLayout {
  int width = 0;  // pixels
  int height = 0;
  bool top_down = false;
  unsigned bits = 0;  // of a pixel
  uint32_t compression = kNone;
  std::array<uint32_t, 4> masks{};  // of red, green, blue and alpha
  std::span<const uint8_t> palette;
  size_t palette_step = 4;  // bytes of a color
  std::span<const uint8_t> pixels;

  bool is_rle() const { return compression == kRle8 || compression == kRle4; }
  size_t row_stride() const { return RowStride(width, bits); }
  // The last row need not be padded.
  size_t pixel_bytes() const {
    return row_stride() * static_cast<size_t>(height - 1) +
           (static_cast<size_t>(width) * bits + 7) / 8;
  }
};

void ReadSize(ByteReader& reader, size_t header_bytes, BmpLayout& layout) {
  int64_t width = 0;
  int64_t height = 0;
  if (header_bytes == kCoreHeaderBytes) {
    width = reader.Word();
    height = reader.Word();
  } else {
    width = static_cast<int32_t>(reader.Long());
    height = static_cast<int32_t>(reader.Long());
  }
  layout.top_down = height < 0;
  height = layout.top_down ? -height : height;
  if (width < 1 || height < 1 || height > std::numeric_limits<int>::max()) {
    FailCorrupt("the BMP claims ", width, "x", height, " pixels; both sides must be at least 1");
  }
  layout.width = static_cast<int>(width);
  layout.height = static_cast<int>(height);
}

void CheckKind(const BmpLayout& layout, size_t header_bytes) {
  const auto fits = [&](uint32_t compression, std::initializer_list<unsigned> allowed) {
    return layout.compression == compression &&
           std::find(allowed.begin(), allowed.end(), layout.bits) != allowed.end();
  };
  const bool is_os2 = header_bytes == kOs2HeaderBytes;
  if (layout.compression == kJpegInside || layout.compression == kPngInside ||
      layout.compression > kMasksWithAlpha || (is_os2 && layout.compression > kRle4)) {
    Fail(ErrorCode::kUnsupported, "the BMP has compression ", layout.compression,
         "; none, RLE and bit masks can be decoded");
  }
  if (!fits(kNone, {1, 4, 8, 16, 24, 32}) && !fits(kRle8, {8}) && !fits(kRle4, {4}) &&
      !fits(kMasks, {16, 32}) && !fits(kMasksWithAlpha, {16, 32})) {
    FailCorrupt("the BMP has ", layout.bits, " bits a pixel with compression ", layout.compression,
                ", which do not go together");
  }
  if (layout.top_down && layout.is_rle()) FailCorrupt("the BMP has RLE rows from the top down");
}

void CheckMasks(const BmpLayout& layout) {
  for (const uint32_t mask : layout.masks) {
    const uint32_t low = mask >> (mask == 0 ? 0 : std::countr_zero(mask));
    if ((low & (low + 1)) != 0) FailCorrupt("the BMP has a color mask with a gap in it");
  }
}

// Reads the masks, which follow the header where it has no room for them. Returns the bytes that
// they take there.
size_t ReadMasks(std::span<const uint8_t> file, size_t header_bytes, BmpLayout& layout) {
  if (layout.compression == kNone) {
    if (layout.bits == 16) layout.masks = {0x7C00, 0x03E0, 0x001F, 0};
    if (layout.bits == 32) layout.masks = {0xFF0000, 0xFF00, 0xFF, 0};
    return 0;
  }
  if (layout.is_rle()) return 0;
  const bool has_alpha =
      header_bytes >= kAlphaMaskHeaderBytes || layout.compression == kMasksWithAlpha;
  const size_t count = has_alpha ? 4 : 3;
  ByteReader reader(file.data(), file.size(), /*big_endian=*/false);
  reader.Seek(kFileHeaderBytes + kInfoHeaderBytes);
  for (size_t i = 0; i < count; ++i) layout.masks[i] = reader.Long();
  if (reader.overrun()) FailCorrupt("the BMP is cut short in its header");
  CheckMasks(layout);
  return header_bytes >= kColorMaskHeaderBytes ? 0 : count * sizeof(uint32_t);
}

BmpLayout ReadLayout(std::span<const uint8_t> file) {
  ByteReader reader(file.data(), file.size(), /*big_endian=*/false);
  reader.Seek(10);
  const size_t pixel_offset = reader.Long();
  const size_t header_bytes = reader.Long();
  const bool is_core = header_bytes == kCoreHeaderBytes;
  if (reader.overrun() || file.size() < kFileHeaderBytes + header_bytes) {
    FailCorrupt("the BMP is cut short in its header", AdviseOnDroppedZeros(file));
  }
  if (!is_core && header_bytes < kInfoHeaderBytes) {
    FailCorrupt("the BMP has a header of ", header_bytes, " bytes; 12 and 40 or more are known");
  }
  BmpLayout layout;
  ReadSize(reader, header_bytes, layout);
  reader.Skip(2);  // planes
  layout.bits = reader.Word();
  uint32_t used_colors = 0;
  if (!is_core) {
    layout.compression = reader.Long();
    reader.Skip(12);  // bytes of pixels, and pixels a metre
    used_colors = reader.Long();
  }
  CheckKind(layout, header_bytes);
  const size_t palette_offset =
      kFileHeaderBytes + header_bytes + ReadMasks(file, header_bytes, layout);
  if (pixel_offset < palette_offset || pixel_offset > file.size()) {
    FailCorrupt("the BMP's pixels begin at byte ", pixel_offset, ", which is not after its header");
  }
  layout.pixels = file.subspan(pixel_offset);
  if (layout.bits <= 8) {
    layout.palette_step = is_core ? 3 : 4;
    const size_t most = size_t{1} << layout.bits;
    const size_t count = used_colors == 0 ? most : std::min<size_t>(used_colors, most);
    layout.palette = file.subspan(
        palette_offset, std::min(count * layout.palette_step, pixel_offset - palette_offset));
  }
  return layout;
}

// A color channel of a pixel with masks, scaled to 8 bits as Pillow does.
class MaskedChannel {
 public:
  explicit MaskedChannel(uint32_t mask)
      : mask_(mask), shift_(mask == 0 ? 0 : std::countr_zero(mask)), highest_(mask >> shift_) {}

  uint8_t Value(uint32_t pixel, uint8_t without_mask) const {
    if (highest_ == 0) return without_mask;
    return static_cast<uint8_t>(uint64_t{(pixel & mask_) >> shift_} * 255 / highest_);
  }

 private:
  uint32_t mask_;
  int shift_;
  uint32_t highest_;
};

// Turns stored rows into R, G, B and alpha.
class RowReader {
 public:
  explicit RowReader(const BmpLayout& layout)
      : layout_(layout),
        channels_{MaskedChannel(layout.masks[0]), MaskedChannel(layout.masks[1]),
                  MaskedChannel(layout.masks[2]), MaskedChannel(layout.masks[3])},
        row_(static_cast<size_t>(layout.width) * kRgbaChannels) {
    colors_.fill({0, 0, 0, 255});
    const size_t count = layout.palette.size() / layout.palette_step;
    for (size_t i = 0; i < std::min(count, colors_.size()); ++i) {
      const uint8_t* color = layout.palette.data() + i * layout.palette_step;
      colors_[i] = {color[2], color[1], color[0], 255};
    }
  }

  const uint8_t* Read(const uint8_t* stored) {
    for (size_t x = 0; x < static_cast<size_t>(layout_.width); ++x) {
      std::memcpy(row_.data() + x * kRgbaChannels, Pixel(stored, x).data(), kRgbaChannels);
    }
    return row_.data();
  }

 private:
  using Rgba = std::array<uint8_t, kRgbaChannels>;

  Rgba Pixel(const uint8_t* row, size_t x) const {
    switch (layout_.bits) {
      case 1:
        return colors_[(row[x / 8] >> (7 - x % 8)) & 1U];
      case 4:
        return colors_[(row[x / 2] >> (x % 2 == 0 ? 4 : 0)) & 15U];
      case 8:
        return colors_[row[x]];
      case 24:
        return {row[3 * x + 2], row[3 * x + 1], row[3 * x], 255};
      case 16:
        return Masked(row[2 * x] | uint32_t{row[2 * x + 1]} << 8);
      default:
        return Masked(row[4 * x] | uint32_t{row[4 * x + 1]} << 8 | uint32_t{row[4 * x + 2]} << 16 |
                      uint32_t{row[4 * x + 3]} << 24);
    }
  }

  Rgba Masked(uint32_t pixel) const {
    return {channels_[0].Value(pixel, 0), channels_[1].Value(pixel, 0),
            channels_[2].Value(pixel, 0), channels_[3].Value(pixel, 255)};
  }

  const BmpLayout& layout_;
  std::array<MaskedChannel, kRgbaChannels> channels_;
  std::array<Rgba, 256> colors_{};
  std::vector<uint8_t> row_;
};

// Decodes RLE to the pixels of a BMP of 8 bits without it. Pixels that the file leaves out have
// index 0, those beyond the end of a row are dropped.
class RleReader {
 public:
  explicit RleReader(const BmpLayout& layout)
      : layout_(layout),
        reader_(layout.pixels.data(), layout.pixels.size()),
        stride_(RowStride(layout.width, 8)),
        indices_(stride_ * static_cast<size_t>(layout.height)) {}

  std::vector<uint8_t> Read() {
    while (y_ < layout_.height) {
      const unsigned count = reader_.Byte();
      const unsigned value = reader_.Byte();
      if (reader_.overrun()) {
        const bool is_last = y_ == layout_.height - 1 && x_ >= layout_.width;
        if (!is_last) FailCorrupt("the BMP is cut short");
        break;
      }
      if (count > 0) {
        Run(count, value);
      } else if (value == kEndOfBitmap) {
        break;
      } else {
        Escape(value);
      }
    }
    return std::move(indices_);
  }

 private:
  static constexpr unsigned kEndOfRow = 0;
  static constexpr unsigned kEndOfBitmap = 1;
  static constexpr unsigned kDelta = 2;

  void Escape(unsigned code) {
    if (code == kEndOfRow) {
      x_ = 0;
      ++y_;
    } else if (code == kDelta) {
      x_ = std::min<int>(layout_.width, x_ + reader_.Byte());
      y_ += reader_.Byte();
    } else {
      Literal(code);
    }
  }

  void Put(unsigned index) {
    if (x_ >= layout_.width || y_ >= layout_.height) return;
    indices_[static_cast<size_t>(y_) * stride_ + static_cast<size_t>(x_)] =
        static_cast<uint8_t>(index);
    ++x_;
  }

  void Run(unsigned count, unsigned value) {
    for (unsigned i = 0; i < count; ++i) {
      if (layout_.compression == kRle8) {
        Put(value);
      } else {
        Put(i % 2 == 0 ? value >> 4 : value & 15U);
      }
    }
  }

  // Indices as they are, padded to two bytes.
  void Literal(unsigned count) {
    unsigned bytes = 0;
    for (unsigned i = 0, pair = 0; i < count; ++i) {
      if (layout_.compression == kRle8 || i % 2 == 0) {
        pair = reader_.Byte();
        ++bytes;
      }
      Put(layout_.compression == kRle8 ? pair : i % 2 == 0 ? pair >> 4 : pair & 15U);
    }
    reader_.Skip(bytes % 2);
  }

  const BmpLayout& layout_;
  ByteReader reader_;
  size_t stride_;
  std::vector<uint8_t> indices_;
  int x_ = 0;
  int y_ = 0;
};

}  // namespace

ImageHeader ReadBmpHeader(std::span<const uint8_t> file, const DecodeLimits& limits) {
  const BmpLayout layout = ReadLayout(file);
  const ImageHeader header{
      .format = FileFormat::kBmp, .width = layout.width, .height = layout.height};
  CheckSizeLimits(header.width, header.height, limits);
  if (layout.is_rle()) {
    CheckDecodedLimit(FileFormat::kBmp, int64_t{layout.width} * layout.height, limits);
  } else if (layout.pixels.size() < layout.pixel_bytes()) {
    FailCorrupt("the BMP is cut short: ", layout.width, "x", layout.height, " pixels take ",
                layout.pixel_bytes(), " bytes, ", layout.pixels.size(), " are there",
                AdviseOnDroppedZeros(file));
  }
  return header;
}

void BmpToRows(std::span<const uint8_t> file, const ImageHeader& header, StoredRows& rows) {
  BmpLayout layout = ReadLayout(file);
  if (layout.width != header.width || layout.height != header.height ||
      (!layout.is_rle() && layout.pixels.size() < layout.pixel_bytes())) {
    FailChanged(FileFormat::kBmp);
  }
  std::vector<uint8_t> indices;
  if (layout.is_rle()) {
    indices = RleReader(layout).Read();
    layout.bits = 8;
    layout.pixels = indices;
  }
  RowReader reader(layout);
  for (int row = 0; row < rows.end_row(); ++row) {
    if (!rows.Needs(row)) continue;
    const auto stored = static_cast<size_t>(layout.top_down ? row : layout.height - 1 - row);
    rows.Put(row, StoredPixels::kRgba,
             reader.Read(layout.pixels.data() + stored * layout.row_stride()));
  }
}

}  // namespace endcap
