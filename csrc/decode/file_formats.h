#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "common/row_band.h"
#include "endcap/decode.h"

namespace endcap {

// How a decoder stores a pixel, 8 bits a channel.
enum class StoredPixels : int32_t { kGray, kGrayAlpha, kRgb, kRgba };

int ChannelCount(StoredPixels pixels) noexcept;

// Takes the rows of a decoder from top to bottom and passes those that a sink needs on, in the
// sink's format: gray is spread to three channels or colors are converted to their luma.
class StoredRows {
 public:
  StoredRows(const BandFormat& format, Alpha alpha, BandSink& sink);

  int width() const noexcept { return format_.width; }
  int height() const noexcept { return format_.height; }
  // Rows from this one on are not needed.
  int end_row() const noexcept { return end_row_; }
  // Whether the sink needs this row, which is the next to be put or skipped.
  bool Needs(int row) const { return row < end_row_ && sink_.NextRow(row) == row; }
  // Passes on a row that is needed, of width() pixels.
  void Put(int row, StoredPixels stored, const uint8_t* pixels);

  // The time spent in conversion and sink.
  int64_t sink_ns() const noexcept { return sink_ns_; }

 private:
  BandFormat format_;
  Alpha alpha_;
  BandSink& sink_;
  int end_row_;
  std::vector<uint8_t> row_;
  int64_t sink_ns_ = 0;
};

// Puts the rows of a file other than a JPEG into `rows`, by the reader of its format. Throws as
// those, and kUnsupported for a Y4M file, which has no rows of pixels.
void FileToRows(std::span<const uint8_t> file, const ImageHeader& header, StoredRows& rows);

// The readers of each file format, chosen by header.cc.
//
// Read...Header: `file` begins as files of the format do. The header's pixels and all limits but
// formats and max_bytes are checked, nothing is allocated. Throws as ReadHeader.
//
// ...ToRows: decodes a file whose header was read, and puts its rows from top to bottom into
// `rows`, until that has what it needs. Throws kCorruptImage, kOutOfMemory.

ImageHeader ReadJpegHeader(std::span<const uint8_t> file, const DecodeLimits& limits,
                           Damaged damaged);

// Returns the 8x8 blocks of all components of a JPEG; 0 where its header is damaged. Allocates
// nothing.
int64_t CountJpegBlocks(std::span<const uint8_t> file) noexcept;

// Return the bytes of compressed pixels that are decoded: without texts, profiles, further frames
// and what follows the last row. Throw as ReadHeader for a damaged header.
int64_t CountPngBytes(std::span<const uint8_t> file);
int64_t CountWebpBytes(std::span<const uint8_t> file);

// By libpng. Source: PNG specification, third edition (W3C, 2025).
ImageHeader ReadPngHeader(std::span<const uint8_t> file, const DecodeLimits& limits);
void PngToRows(std::span<const uint8_t> file, const ImageHeader& header, StoredRows& rows);

// By libwebp. Source: RFC 9649.
ImageHeader ReadWebpHeader(std::span<const uint8_t> file, const DecodeLimits& limits);
void WebpToRows(std::span<const uint8_t> file, const ImageHeader& header, StoredRows& rows);

// Source: Microsoft's documentation of BITMAPINFOHEADER, BITMAPV5HEADER and bitmap compression.
ImageHeader ReadBmpHeader(std::span<const uint8_t> file, const DecodeLimits& limits);
void BmpToRows(std::span<const uint8_t> file, const ImageHeader& header, StoredRows& rows);

// By giflib. Source: GIF 89a specification.
ImageHeader ReadGifHeader(std::span<const uint8_t> file, const DecodeLimits& limits);
void GifToRows(std::span<const uint8_t> file, const ImageHeader& header, StoredRows& rows);

// A YUV4MPEG2 stream (Y4M), which holds frames of YUV as they are; the first is read. Its pixels
// are read by ViewY4mPlanes (decode.h). Source: yuv4mpeg(5) of mjpegtools.
inline constexpr std::string_view kY4mSignature = "YUV4MPEG2 ";
ImageHeader ReadY4mHeader(std::span<const uint8_t> file, const DecodeLimits& limits);

// Whether data that begins so is a file of a known format, decoded or not. By 12 bytes all are
// told.
bool BeginsAsFile(std::string_view beginning) noexcept;

// Base64 text in the place of a file, without what a data URL has in front of it; nothing for other
// data. `data` does not begin as a file.
std::optional<std::string_view> FindBase64(std::string_view data) noexcept;
// Throws as DecodeBase64 for such text.
void CheckBase64(std::string_view text, const DecodeLimits& limits);

// Throws kImageLimit when a file is longer than max_bytes.
void CheckByteLimit(size_t size_bytes, const DecodeLimits& limits);

// Advice for the message of a file whose end is missing. NumPy's type bytes_ drops zeros at the end
// of its elements, so it may have cut a file that does not end in one; empty for other files.
std::string_view AdviseOnDroppedZeros(std::span<const uint8_t> file) noexcept;

// Throws kImageLimit when `bytes` are more than max_decoded_bytes.
void CheckDecodedLimit(FileFormat format, int64_t bytes, const DecodeLimits& limits);

// Throws kCorruptImage: the file's header has changed since it was read. Bytes that
// another thread or process changes meanwhile must not make a decoder write beyond its memory.
[[noreturn]] void FailChanged(FileFormat format);

}  // namespace endcap
