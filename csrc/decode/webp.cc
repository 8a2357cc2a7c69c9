#include <webp/decode.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <vector>

#include "common/fail.h"
#include "decode/byte_reader.h"
#include "decode/file_formats.h"

namespace endcap {
namespace {

using namespace std::string_view_literals;

constexpr size_t kRiffHeaderBytes = 12;
constexpr size_t kFrameHeaderBytes = 16;  // of an ANMF chunk

// The picture of a file: the file itself, or the first frame of an animation.
struct WebpPicture {
  int canvas_w = 0;  // pixels
  int canvas_h = 0;
  int orientation = 1;
  std::span<const uint8_t> data;
  int x = 0;  // on the canvas
  int y = 0;
  int width = 0;
  int height = 0;
  bool has_alpha = false;
  bool lossless = false;
  int64_t data_bytes = 0;  // of chunks that are decoded

  bool fills_canvas() const { return width == canvas_w && height == canvas_h; }
  StoredPixels stored() const { return has_alpha ? StoredPixels::kRgba : StoredPixels::kRgb; }
  size_t row_bytes() const {
    return static_cast<size_t>(width) * static_cast<size_t>(ChannelCount(stored()));
  }
};

// data: a file, or the chunk of a frame; both have their length at byte 4.
[[noreturn]] void FailCutShort(std::span<const uint8_t> data) {
  // Compressed pixels end in few zeros: a file that lacks more bytes than this has lost others.
  constexpr size_t kMaxDroppedZeros = 8;
  ByteReader reader(data.data(), data.size(), /*big_endian=*/false);
  reader.Seek(4);
  const size_t claimed = size_t{reader.Long()} + 8;
  const bool lacks_few = claimed > data.size() && claimed - data.size() <= kMaxDroppedZeros;
  FailCorrupt("the WebP is cut short", lacks_few ? AdviseOnDroppedZeros(data) : ""sv);
}

[[noreturn]] void FailWebp(VP8StatusCode status, std::span<const uint8_t> data) {
  switch (status) {
    case VP8_STATUS_OUT_OF_MEMORY:
      Fail(ErrorCode::kOutOfMemory, "not enough memory to decode a WebP");
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      Fail(ErrorCode::kUnsupported, "the WebP has a feature that libwebp does not decode");
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED:
      FailCutShort(data);
    default:
      FailCorrupt("the WebP is damaged");
  }
}

WebPBitstreamFeatures ReadFeatures(std::span<const uint8_t> data) {
  WebPBitstreamFeatures features;
  const VP8StatusCode status = WebPGetFeatures(data.data(), data.size(), &features);
  if (status != VP8_STATUS_OK) FailWebp(status, data);
  if (features.width < 1 || features.height < 1) FailCorrupt("the WebP has no pixels");
  return features;
}

int ReadThreeBytes(const uint8_t* from) { return from[0] | (from[1] << 8) | (from[2] << 16); }

// Sets where the first frame lies.
void PlaceFrame(std::span<const uint8_t> frame, WebpPicture& picture) {
  if (frame.size() <= kFrameHeaderBytes) FailCorrupt("the WebP's first frame is cut short");
  picture.x = 2 * ReadThreeBytes(frame.data());
  picture.y = 2 * ReadThreeBytes(frame.data() + 3);
  picture.data = frame.subspan(kFrameHeaderBytes);
}

WebpPicture ReadPicture(std::span<const uint8_t> file) {
  const WebPBitstreamFeatures canvas = ReadFeatures(file);
  WebpPicture picture;
  picture.canvas_w = canvas.width;
  picture.canvas_h = canvas.height;
  picture.data = file;
  bool has_frame = canvas.has_animation == 0;
  bool has_exif = false;
  ByteReader reader(file.data(), file.size(), /*big_endian=*/false);
  reader.Seek(kRiffHeaderBytes);
  while (reader.remaining() >= 8) {
    const std::string_view type(reinterpret_cast<const char*>(reader.here()), 4);
    reader.Skip(4);
    const size_t length = reader.Long();
    const std::span chunk(reader.here(), std::min(length, reader.remaining()));
    if (type == "ANMF"sv && !has_frame) {
      PlaceFrame(chunk, picture);
      picture.data_bytes = static_cast<int64_t>(chunk.size());
      has_frame = true;
    } else if (type == "VP8 "sv || type == "VP8L"sv || type == "ALPH"sv) {
      picture.data_bytes += static_cast<int64_t>(chunk.size());
    } else if (type == "EXIF"sv && !has_exif) {
      has_exif = true;
      picture.orientation = ReadExifOrientation(std::array{chunk});
    }
    reader.Skip(chunk.size());
    reader.Skip(std::min<size_t>(length % 2, reader.remaining()));
  }
  if (!has_frame) FailCorrupt("the WebP is an animation without frames");
  const WebPBitstreamFeatures features =
      canvas.has_animation != 0 ? ReadFeatures(picture.data) : canvas;
  picture.width = features.width;
  picture.height = features.height;
  picture.has_alpha = features.has_alpha != 0;
  picture.lossless = features.format == 2;
  if (picture.x > picture.canvas_w - picture.width ||
      picture.y > picture.canvas_h - picture.height) {
    FailCorrupt("the WebP's first frame lies outside of the image");
  }
  return picture;
}

std::vector<uint8_t> DecodePicture(const WebpPicture& picture) {
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) {
    Fail(ErrorCode::kInternal, "libwebp is of another version than its header");
  }
  std::vector<uint8_t> pixels(picture.row_bytes() * static_cast<size_t>(picture.height));
  config.output.colorspace = picture.has_alpha ? MODE_RGBA : MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {pixels.data(), static_cast<int>(picture.row_bytes()), pixels.size()};
  const VP8StatusCode status = WebPDecode(picture.data.data(), picture.data.size(), &config);
  WebPFreeDecBuffer(&config.output);
  if (status != VP8_STATUS_OK) FailWebp(status, picture.data);
  return pixels;
}

// Puts a row of a frame in its place of a row of the canvas, of four channels.
void PlaceRow(const WebpPicture& picture, const uint8_t* from, std::vector<uint8_t>& canvas) {
  uint8_t* to = canvas.data() + static_cast<size_t>(picture.x) * 4;
  const auto stored = static_cast<size_t>(ChannelCount(picture.stored()));
  for (int x = 0; x < picture.width; ++x, from += stored, to += 4) {
    to[3] = 255;
    std::memcpy(to, from, stored);
  }
}

}  // namespace

int64_t CountWebpBytes(std::span<const uint8_t> file) { return ReadPicture(file).data_bytes; }

ImageHeader ReadWebpHeader(std::span<const uint8_t> file, const DecodeLimits& limits) {
  const WebpPicture picture = ReadPicture(file);
  const ImageHeader header{.format = FileFormat::kWebp,
                           .width = picture.canvas_w,
                           .height = picture.canvas_h,
                           .orientation = picture.orientation};
  CheckSizeLimits(header.width, header.height, limits);
  // Beside the pixels libwebp holds the alpha of a lossy picture, or a lossless one as a whole.
  const int64_t held = picture.lossless ? 4 : picture.has_alpha ? 1 : 0;
  const int64_t pixel_bytes = ChannelCount(picture.stored()) + held;
  CheckDecodedLimit(FileFormat::kWebp, pixel_bytes * picture.width * picture.height, limits);
  return header;
}

void WebpToRows(std::span<const uint8_t> file, const ImageHeader& header, StoredRows& rows) {
  const WebpPicture picture = ReadPicture(file);
  if (picture.canvas_w != header.width || picture.canvas_h != header.height) {
    FailChanged(FileFormat::kWebp);
  }
  const std::vector<uint8_t> pixels = DecodePicture(picture);
  std::vector<uint8_t> canvas(static_cast<size_t>(picture.canvas_w) * 4);
  for (int row = 0; row < rows.end_row(); ++row) {
    if (!rows.Needs(row)) continue;
    const int inside = row - picture.y;
    const bool in_frame = inside >= 0 && inside < picture.height;
    const uint8_t* from =
        pixels.data() + (in_frame ? picture.row_bytes() * static_cast<size_t>(inside) : 0);
    if (picture.fills_canvas()) {
      rows.Put(row, picture.stored(), from);
      continue;
    }
    std::ranges::fill(canvas, uint8_t{0});  // transparent outside of the frame
    if (in_frame) PlaceRow(picture, from, canvas);
    rows.Put(row, StoredPixels::kRgba, canvas.data());
  }
}

}  // namespace endcap
