#include <gif_lib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "common/fail.h"
#include "decode/byte_reader.h"
#include "decode/file_formats.h"

namespace endcap {
namespace {

constexpr size_t kVersionBytes = 6;
constexpr uint8_t kExtension = 0x21;
constexpr uint8_t kImage = 0x2C;
constexpr uint8_t kHasColorTable = 0x80;
constexpr uint8_t kInterlaced = 0x40;
constexpr size_t kRgbaChannels = 4;
constexpr int kMaxCodeSize = 8;  // bits of an index
constexpr int kMaxCodes = 4096;
constexpr int kNoCode = -1;
constexpr uint8_t kOpaque = 255;
// A pixel takes a code of 12 bits at most, and another where each code is followed by one that
// clears the table; each byte may have its own block. More would be codes that only clear the
// table, of which an encoder writes no more than pixels and a few.
constexpr size_t kMaxPixelBytes = 8;
constexpr size_t kMinDataBytes = 1024;
constexpr size_t kMinClears = 1024;

// Of an interlaced image the rows come in four passes.
struct InterlacePass {
  int first;
  int step;
};
constexpr std::array<InterlacePass, 4> kPasses = {{{0, 8}, {4, 8}, {2, 4}, {1, 2}}};

struct Frame {
  int x = 0;  // pixels, on the screen
  int y = 0;
  int width = 0;
  int height = 0;
  bool interlaced = false;
};

// Screen and first frame.
struct GifLayout {
  int screen_w = 0;
  int screen_h = 0;
  Frame frame;
};

void SkipColorTable(ByteReader& reader, uint8_t flags) {
  if ((flags & kHasColorTable) != 0) reader.Skip(size_t{3} << ((flags & 7) + 1));
}

void SkipBlocks(ByteReader& reader) {
  while (const uint8_t length = reader.Byte()) reader.Skip(length);
}

GifLayout ReadLayout(std::span<const uint8_t> file) {
  ByteReader reader(file.data(), file.size(), /*big_endian=*/false);
  reader.Seek(kVersionBytes);
  GifLayout layout;
  layout.screen_w = reader.Word();
  layout.screen_h = reader.Word();
  const uint8_t flags = reader.Byte();
  reader.Skip(2);  // background and aspect ratio
  SkipColorTable(reader, flags);
  uint8_t block = reader.Byte();
  for (; block == kExtension && !reader.overrun(); block = reader.Byte()) {
    reader.Skip(1);
    SkipBlocks(reader);
  }
  Frame& frame = layout.frame;
  frame.x = reader.Word();
  frame.y = reader.Word();
  frame.width = reader.Word();
  frame.height = reader.Word();
  frame.interlaced = (reader.Byte() & kInterlaced) != 0;
  if (reader.overrun() || block != kImage) {
    FailCorrupt("the GIF is cut short or damaged before its first frame");
  }
  if (layout.screen_w == 0 || layout.screen_h == 0 || frame.width == 0 || frame.height == 0) {
    FailCorrupt("the GIF has no pixels");
  }
  return layout;
}

[[noreturn]] void FailGif(int error) {
  if (error == D_GIF_ERR_NOT_ENOUGH_MEM) {
    Fail(ErrorCode::kOutOfMemory, "not enough memory to decode a GIF");
  }
  const char* text = GifErrorString(error);
  FailCorrupt("the GIF is cut short or damaged: ", text != nullptr ? text : "unknown error");
}

// The table of LZW strings. giflib's own takes 16 KiB of writes for each code that clears it, and a
// file may have little else.
class StringTable {
 public:
  void Start(int code_size) {
    clear_code_ = 1 << code_size;
    for (int i = 0; i < clear_code_; ++i) {
      strings_[static_cast<size_t>(i)] = {kNoCode, static_cast<uint8_t>(i)};
    }
    Clear();
  }

  bool IsClear(int code) const { return code == clear_code_; }

  void Clear() {
    next_ = clear_code_ + 2;  // behind those that clear the table and end the image
    previous_ = kNoCode;
  }

  // Writes the string of a code from its end, and adds the string of the code before, which the
  // first index of this one extends. Returns false for a code that has no string.
  bool Expand(int code, std::vector<uint8_t>& reversed) {
    const bool is_new = code == next_ && previous_ != kNoCode;  // extended by its own first index
    if (code < 0 || (code >= next_ && !is_new) || code == clear_code_ + 1) return false;
    if (is_new) reversed.push_back(0);
    for (int at = is_new ? previous_ : code; at != kNoCode;) {
      const String& string = strings_[static_cast<size_t>(at)];
      reversed.push_back(string.last);
      at = string.before;
    }
    if (is_new) reversed.front() = reversed.back();
    if (previous_ != kNoCode && next_ < kMaxCodes) {
      strings_[static_cast<size_t>(next_)] = {static_cast<int16_t>(previous_), reversed.back()};
      ++next_;
    }
    previous_ = code;
    return true;
  }

 private:
  struct String {
    int16_t before;  // code of the string without its last index
    uint8_t last;
  };

  std::array<String, kMaxCodes> strings_{};
  int clear_code_ = 0;
  int next_ = 0;
  int previous_ = kNoCode;
};

// giflib on a file in memory, up to its first frame.
class GifSession {
 public:
  explicit GifSession(std::span<const uint8_t> file) : rest_(file) {
    int error = 0;
    gif_.reset(DGifOpen(this, OnRead, &error));
    if (!gif_) FailGif(error);
  }

  // Reads up to the pixels of the first frame.
  void ReadFrame(const GifLayout& expected) {
    for (;;) {
      GifRecordType type = UNDEFINED_RECORD_TYPE;
      Check(DGifGetRecordType(gif_.get(), &type));
      if (type == IMAGE_DESC_RECORD_TYPE) break;
      if (type != EXTENSION_RECORD_TYPE) FailCorrupt("the GIF has no frame");
      ReadExtension();
    }
    Check(DGifGetImageDesc(gif_.get()));
    const int code_size = rest_.data()[-1];  // the last byte that giflib has read
    if (code_size > kMaxCodeSize) FailGif(D_GIF_ERR_IMAGE_DEFECT);
    strings_.Start(code_size);
    const GifImageDesc& image = gif_->Image;
    if (gif_->SWidth != expected.screen_w || gif_->SHeight != expected.screen_h ||
        image.Width != expected.frame.width || image.Height != expected.frame.height ||
        image.Interlace != expected.frame.interlaced) {
      FailChanged(FileFormat::kGif);
    }
    const ColorMapObject* map = image.ColorMap != nullptr ? image.ColorMap : gif_->SColorMap;
    if (map == nullptr) FailCorrupt("the GIF has no color table");
    MakeColors(*map);
    const size_t pixels = static_cast<size_t>(image.Width) * static_cast<size_t>(image.Height);
    clears_left_ = pixels + kMinClears;
    unread_bytes_ = rest_.size() - std::min(rest_.size(), kMaxPixelBytes * pixels + kMinDataBytes);
  }

  void ReadRow(uint8_t* indices, int width) {
    for (int x = 0; x < width;) {
      if (reversed_.empty()) {
        ReadString();
      } else {
        indices[x++] = reversed_.back();
        reversed_.pop_back();
      }
    }
  }

  // Writes R, G, B and alpha of a pixel.
  void Store(uint8_t index, uint8_t* to) const {
    std::memcpy(to, colors_[index].data(), kRgbaChannels);
  }
  // The same of a pixel outside of the frame. As in Pillow, its color is that of transparent ones,
  // or the first of the table.
  void StoreOutside(uint8_t* to) const {
    Store(static_cast<uint8_t>(std::max(transparent_, 0)), to);
    to[kRgbaChannels - 1] = 0;
  }

 private:
  struct Closer {
    void operator()(GifFileType* gif) const { DGifCloseFile(gif, nullptr); }
  };

  static int OnRead(GifFileType* gif, GifByteType* to, int count) {
    auto* self = static_cast<GifSession*>(gif->UserData);
    auto& rest = self->rest_;
    const size_t present = std::min(rest.size(), static_cast<size_t>(std::max(count, 0)));
    if (rest.size() < self->unread_bytes_) {  // an empty block, which ends the image
      std::fill_n(to, present, GifByteType{0});
      return static_cast<int>(present);
    }
    std::copy_n(rest.begin(), present, to);
    rest = rest.subspan(present);
    return static_cast<int>(present);
  }

  // Leaves `reversed_` empty after a code that clears the table.
  void ReadString() {
    int code = 0;
    Check(DGifGetLZCodes(gif_.get(), &code));
    if (strings_.IsClear(code)) {
      if (clears_left_-- == 0) FailGif(D_GIF_ERR_IMAGE_DEFECT);
      return strings_.Clear();
    }
    if (code < 0) FailGif(D_GIF_ERR_EOF_TOO_SOON);
    if (!strings_.Expand(code, reversed_)) FailGif(D_GIF_ERR_IMAGE_DEFECT);
  }

  void Check(int status) const {
    if (status != GIF_OK) FailGif(gif_->Error);
  }

  void ReadExtension() {
    int code = 0;
    GifByteType* block = nullptr;
    Check(DGifGetExtension(gif_.get(), &code, &block));
    while (block != nullptr) {
      GraphicsControlBlock control;
      if (code == GRAPHICS_EXT_FUNC_CODE &&
          DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK) {
        transparent_ = control.TransparentColor;
      }
      Check(DGifGetExtensionNext(gif_.get(), &block));
    }
  }

  // Indices beyond the table are black.
  void MakeColors(const ColorMapObject& map) {
    const size_t count = std::min(colors_.size(), static_cast<size_t>(std::max(map.ColorCount, 0)));
    colors_.fill({0, 0, 0, kOpaque});
    for (size_t i = 0; i < count; ++i) {
      const GifColorType& color = map.Colors[i];
      colors_[i] = {color.Red, color.Green, color.Blue, kOpaque};
    }
    if (transparent_ >= 0) colors_[static_cast<uint8_t>(transparent_)].back() = 0;
  }

  std::span<const uint8_t> rest_;
  size_t unread_bytes_ = 0;  // at the end of the file, behind what the first frame can take
  size_t clears_left_ = 0;
  std::unique_ptr<GifFileType, Closer> gif_;
  StringTable strings_;
  std::vector<uint8_t> reversed_;  // indices of the last code that are not yet in a row
  int transparent_ = NO_TRANSPARENT_COLOR;
  std::array<std::array<uint8_t, kRgbaChannels>, 256> colors_{};
};

// All rows of an interlaced frame, in their order.
std::vector<uint8_t> ReadInterlaced(GifSession& session, const Frame& frame) {
  const auto width = static_cast<size_t>(frame.width);
  std::vector<uint8_t> indices(width * static_cast<size_t>(frame.height));
  for (const auto& [first, step] : kPasses) {
    for (int row = first; row < frame.height; row += step) {
      session.ReadRow(indices.data() + width * static_cast<size_t>(row), frame.width);
    }
  }
  return indices;
}

}  // namespace

ImageHeader ReadGifHeader(std::span<const uint8_t> file, const DecodeLimits& limits) {
  const GifLayout layout = ReadLayout(file);
  const ImageHeader header{
      .format = FileFormat::kGif, .width = layout.screen_w, .height = layout.screen_h};
  CheckSizeLimits(header.width, header.height, limits);
  CheckSizeLimits(layout.frame.width, layout.frame.height, limits);
  if (layout.frame.interlaced) {
    CheckDecodedLimit(FileFormat::kGif, int64_t{layout.frame.width} * layout.frame.height, limits);
  }
  return header;
}

void GifToRows(std::span<const uint8_t> file, const ImageHeader& header, StoredRows& rows) {
  const GifLayout layout = ReadLayout(file);
  if (layout.screen_w != header.width || layout.screen_h != header.height) {
    FailChanged(FileFormat::kGif);
  }
  const Frame& frame = layout.frame;
  GifSession session(file);
  session.ReadFrame(layout);
  std::vector<uint8_t> interlaced;
  if (frame.interlaced) interlaced = ReadInterlaced(session, frame);
  std::vector<uint8_t> read(static_cast<size_t>(frame.width));
  std::vector<uint8_t> row_pixels(static_cast<size_t>(header.width) * kRgbaChannels);
  const int shown = std::clamp(header.width - frame.x, 0, frame.width);  // the rest is cut off
  for (int row = 0; row < rows.end_row(); ++row) {
    const int inside = row - frame.y;
    const uint8_t* indices = nullptr;
    if (inside >= 0 && inside < frame.height) {
      if (frame.interlaced) {
        indices = interlaced.data() + read.size() * static_cast<size_t>(inside);
      } else {
        session.ReadRow(read.data(), frame.width);
        indices = read.data();
      }
    }
    if (!rows.Needs(row)) continue;
    for (size_t at = 0; at < row_pixels.size(); at += kRgbaChannels) {
      session.StoreOutside(row_pixels.data() + at);
    }
    for (int x = 0; indices != nullptr && x < shown; ++x) {
      session.Store(indices[x],
                    row_pixels.data() + static_cast<size_t>(frame.x + x) * kRgbaChannels);
    }
    rows.Put(row, StoredPixels::kRgba, row_pixels.data());
  }
}

}  // namespace endcap
