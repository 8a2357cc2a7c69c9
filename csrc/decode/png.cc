#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstring>
#include <limits>
#include <string_view>
#include <vector>

#include "common/fail.h"
#include "decode/byte_reader.h"
#include "decode/file_formats.h"

namespace endcap {
namespace {

using namespace std::string_view_literals;

constexpr size_t kSignatureBytes = 8;
constexpr size_t kIhdrBytes = 13;
constexpr uint32_t kMaxSide = 0x7FFFFFFF;
// A deflate code yields at most 258 bytes, and takes at least 2 bits.
constexpr int64_t kMaxInflationRatio = 1032;
// What a chunk that libpng reads may take: the longest are 768 bytes of PLTE.
constexpr png_alloc_size_t kMaxChunkBytes = 1 << 20;
// How much image data libpng reads at once.
constexpr size_t kReadAheadBytes = 1024;
// Behind the last row: the end of a stream takes some 10 bytes, of which each may have its own
// chunk.
constexpr size_t kMaxTailBytes = 256;
// Image data of which each byte has its own chunk of 13 bytes, and that is longer than its rows, is
// shorter than this many times the rows and kMinReadLimit. More would be empty blocks.
constexpr size_t kMaxExpansion = 32;
constexpr size_t kMinReadLimit = 1 << 16;
constexpr unsigned kGray = 0;
constexpr unsigned kRgb = 2;
constexpr unsigned kPalette = 3;
constexpr unsigned kGrayAlpha = 4;
constexpr unsigned kRgba = 6;

struct Ihdr {
  uint32_t width = 0;
  uint32_t height = 0;
  unsigned bits = 0;
  unsigned color = 0;
  bool interlaced = false;

  // Bytes of all rows with their filter types, if they are not interlaced.
  int64_t inflated_bytes() const {
    const int64_t samples = color == kRgb ? 3 : color == kRgba ? 4 : color == kGrayAlpha ? 2 : 1;
    return ((int64_t{width} * samples * bits + 7) / 8 + 1) * height;
  }
};

bool IsAllowed(unsigned color, unsigned bits) {
  switch (color) {
    case kGray:
      return bits == 1 || bits == 2 || bits == 4 || bits == 8 || bits == 16;
    case kPalette:
      return bits == 1 || bits == 2 || bits == 4 || bits == 8;
    case kRgb:
    case kGrayAlpha:
    case kRgba:
      return bits == 8 || bits == 16;
    default:
      return false;
  }
}

Ihdr ReadIhdr(std::span<const uint8_t> file) {
  ByteReader reader(file.data(), file.size());
  reader.Seek(kSignatureBytes);
  const uint32_t length = reader.Long();
  const bool is_ihdr = reader.remaining() >= 4 && std::memcmp(reader.here(), "IHDR", 4) == 0;
  reader.Skip(4);
  Ihdr ihdr;
  ihdr.width = reader.Long();
  ihdr.height = reader.Long();
  ihdr.bits = reader.Byte();
  ihdr.color = reader.Byte();
  const unsigned compression = reader.Byte();
  const unsigned filter = reader.Byte();
  const unsigned interlace = reader.Byte();
  if (reader.overrun() || !is_ihdr || length != kIhdrBytes || !IsAllowed(ihdr.color, ihdr.bits) ||
      compression != 0 || filter != 0 || interlace > 1) {
    FailCorrupt("the PNG's header (IHDR) is cut short or damaged");
  }
  if (ihdr.width == 0 || ihdr.height == 0 || ihdr.width > kMaxSide || ihdr.height > kMaxSide) {
    FailCorrupt("the PNG claims ", ihdr.width, "x", ihdr.height,
                " pixels; both sides must be from 1 to ", kMaxSide);
  }
  ihdr.interlaced = interlace == 1;
  return ihdr;
}

struct ChunkSummary {
  int orientation = 1;
  int64_t data_bytes = 0;  // of all IDAT
};

ChunkSummary ReadChunks(std::span<const uint8_t> file) {
  ChunkSummary summary;
  bool has_exif = false;
  ByteReader reader(file.data(), file.size());
  reader.Seek(kSignatureBytes);
  while (reader.remaining() >= 8) {
    const uint32_t length = reader.Long();
    const std::string_view type(reinterpret_cast<const char*>(reader.here()), 4);
    reader.Skip(4);
    const size_t present = std::min<size_t>(length, reader.remaining());
    if (type == "IEND"sv) break;
    if (type == "IDAT"sv) summary.data_bytes += static_cast<int64_t>(present);
    if (type == "eXIf"sv && !has_exif && present == length) {
      has_exif = true;
      summary.orientation = ReadExifOrientation(std::array{std::span(reader.here(), present)});
    }
    reader.Skip(present);
    reader.Skip(std::min<size_t>(4, reader.remaining()));  // CRC
  }
  return summary;
}

// libpng on a file in memory. It reports errors by longjmp.
class PngSession {
 public:
  explicit PngSession(std::span<const uint8_t> file) : file_(file) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, OnError, OnWarning);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ == nullptr) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      Fail(ErrorCode::kOutOfMemory, "not enough memory to decode a PNG");
    }
    png_set_read_fn(png_, this, OnRead);
  }
  ~PngSession() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngSession(const PngSession&) = delete;
  PngSession& operator=(const PngSession&) = delete;

  // Reads up to the pixels, and sets how they are to be stored.
  void Start(const ImageHeader& expected) {
    Guarded([&] {
      png_set_user_limits(png_, static_cast<png_uint_32>(expected.width),
                          static_cast<png_uint_32>(expected.height));
      png_set_chunk_malloc_max(png_, kMaxChunkBytes);
      // Nothing is read of texts, profiles and other chunks that pixels do not depend on.
      png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
      png_set_compression_buffer_size(png_, kReadAheadBytes);
      png_read_info(png_, info_);
      read_limit_ =
          position_ + kMinReadLimit +
          kMaxExpansion * png_get_rowbytes(png_, info_) * static_cast<size_t>(expected.height);
    });
    if (png_get_image_width(png_, info_) != static_cast<png_uint_32>(expected.width) ||
        png_get_image_height(png_, info_) != static_cast<png_uint_32>(expected.height)) {
      FailChanged(FileFormat::kPng);
    }
    Guarded([&] {
      png_set_expand(png_);
      png_set_strip_16(png_);
      passes_ = png_set_interlace_handling(png_);
      png_set_read_user_transform_fn(png_, OnRow);
      png_read_update_info(png_, info_);
    });
  }

  int passes() const noexcept { return passes_; }
  size_t row_bytes() const { return png_get_rowbytes(png_, info_); }
  StoredPixels stored() const {
    return static_cast<StoredPixels>(png_get_channels(png_, info_) - 1);
  }

  // is_last: no row follows in this pass or another. With it libpng would inflate whatever is left;
  // here it reads on as far as the end of the stream and the chunk's checksum can be.
  void ReadRow(uint8_t* row, bool is_last) {
    is_last_row_ = is_last;
    // The last pass of several has data for odd rows only.
    const bool has_data = passes_ == 1 || png_get_current_row_number(png_) % 2 == 1;
    if (is_last && !has_data) LimitTail();
    Guarded([&] { png_read_row(png_, row, nullptr); });
  }

 private:
  static void OnError(png_structp png, png_const_charp message) {
    auto* self = static_cast<PngSession*>(png_get_error_ptr(png));
    const std::string_view text(message);
    const size_t length = text.copy(self->message_.data(), self->message_.size() - 1);
    self->message_[length] = '\0';
    std::longjmp(self->escape_, 1);  // NOLINT: what libpng asks an error handler to do
  }
  static void OnWarning(png_structp /*png*/, png_const_charp /*message*/) {}
  static void OnRead(png_structp png, png_bytep to, size_t count) {
    auto* self = static_cast<PngSession*>(png_get_io_ptr(png));
    if (self->position_ > self->read_limit_) {
      self->has_ended_ = self->has_all_rows_;
      png_error(png, "its image data is much longer than its pixels need");
    }
    if (count > self->file_.size() - self->position_) png_error(png, "the file ends early");
    std::memcpy(to, self->file_.data() + self->position_, count);
    self->position_ += count;
  }
  // A row was inflated.
  static void OnRow(png_structp png, png_row_infop /*info*/, png_bytep /*row*/) {
    auto* self = static_cast<PngSession*>(png_get_io_ptr(png));
    if (self->is_last_row_) self->LimitTail();
  }
  void LimitTail() noexcept {
    has_all_rows_ = true;
    read_limit_ = position_ + kMaxTailBytes;
  }

  // longjmp leaves `call`, so `call` must own nothing that has a destructor.
  template <typename Call>
  void Guarded(Call call) {
    if (setjmp(escape_) != 0) {  // NOLINT: see OnError
      if (has_ended_) return;
      if (std::string_view(message_.data()).find("emory") != std::string_view::npos) {
        Fail(ErrorCode::kOutOfMemory, "the PNG cannot be decoded: ", message_.data());
      }
      FailCorrupt("the PNG is cut short or damaged: ", message_.data());
    }
    call();
  }

  std::span<const uint8_t> file_;
  size_t position_ = 0;
  size_t read_limit_ = std::numeric_limits<size_t>::max();
  bool is_last_row_ = false;
  bool has_all_rows_ = false;
  bool has_ended_ = false;  // stopped behind the last row
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  int passes_ = 1;
  std::jmp_buf escape_{};
  std::array<char, 128> message_{};
};

}  // namespace

int64_t CountPngBytes(std::span<const uint8_t> file) {
  // Stored blocks and the passes of an interlaced image make data longer than rows.
  const int64_t inflated = ReadIhdr(file).inflated_bytes();
  return std::min(ReadChunks(file).data_bytes, inflated + inflated / 4 + int64_t{kReadAheadBytes});
}

ImageHeader ReadPngHeader(std::span<const uint8_t> file, const DecodeLimits& limits) {
  const Ihdr ihdr = ReadIhdr(file);
  ImageHeader header{.format = FileFormat::kPng,
                     .width = static_cast<int>(ihdr.width),
                     .height = static_cast<int>(ihdr.height)};
  CheckSizeLimits(header.width, header.height, limits);
  const ChunkSummary chunks = ReadChunks(file);
  const int64_t needed = ihdr.inflated_bytes() / kMaxInflationRatio;
  if (chunks.data_bytes < std::max<int64_t>(needed, 1)) {
    FailCorrupt("the PNG is cut short: ", ihdr.width, "x", ihdr.height, " pixels take at least ",
                needed, " bytes of image data, ", chunks.data_bytes, " are there");
  }
  if (ihdr.interlaced) {
    const int64_t pixel_bytes = ihdr.color == kGray ? 2 : 4;  // tRNS may add an alpha channel
    CheckDecodedLimit(FileFormat::kPng, pixel_bytes * ihdr.width * ihdr.height, limits);
  }
  header.orientation = chunks.orientation;
  return header;
}

void PngToRows(std::span<const uint8_t> file, const ImageHeader& header, StoredRows& rows) {
  PngSession session(file);
  session.Start(header);
  const size_t row_bytes = session.row_bytes();
  const StoredPixels stored = session.stored();
  // Of several passes the rows are kept: the last completes them.
  const bool interlaced = session.passes() > 1;
  std::vector<uint8_t> pixels(row_bytes * static_cast<size_t>(interlaced ? header.height : 1));
  for (int pass = 1; pass <= session.passes(); ++pass) {
    const bool completes = pass == session.passes();
    for (int row = 0; row < (interlaced ? header.height : rows.end_row()); ++row) {
      uint8_t* at = pixels.data() + (interlaced ? row_bytes * static_cast<size_t>(row) : 0);
      session.ReadRow(at, completes && row == header.height - 1);
      if (completes && rows.Needs(row)) rows.Put(row, stored, at);
    }
  }
}

}  // namespace endcap
