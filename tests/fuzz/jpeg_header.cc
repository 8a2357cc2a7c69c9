// ReadHeader against libjpeg-turbo's own reading of the same header, and its promises.

// clang-format off
#include <cstdio>  // jpeglib.h uses FILE without including what declares it
#include <jpeglib.h>
// clang-format on

#include <csetjmp>

#include "agreement.h"
#include "endcap/decode.h"

namespace endcap::fuzz {
namespace {

struct LibraryHeader {
  bool readable = false;
  int width = 0;
  int height = 0;
  int components = 0;
  bool progressive = false;
  J_COLOR_SPACE color = JCS_UNKNOWN;
};

struct Escape {
  jpeg_error_mgr base;
  std::jmp_buf place;
};

void LeaveOnError(j_common_ptr info) {
  std::longjmp(reinterpret_cast<Escape*>(info->err)->place, 1);
}
void SayNothing(j_common_ptr /*info*/, int /*level*/) {}

LibraryHeader ReadByLibrary(const std::vector<uint8_t>& file) {
  LibraryHeader header;
  jpeg_decompress_struct info{};
  Escape escape{};
  info.err = jpeg_std_error(&escape.base);
  escape.base.error_exit = LeaveOnError;
  escape.base.emit_message = SayNothing;
  if (setjmp(escape.place) == 0) {
    jpeg_create_decompress(&info);
    jpeg_mem_src(&info, file.data(), static_cast<unsigned long>(file.size()));
    if (jpeg_read_header(&info, TRUE) == JPEG_HEADER_OK) {
      header = {true,
                static_cast<int>(info.image_width),
                static_cast<int>(info.image_height),
                info.num_components,
                info.progressive_mode != 0,
                info.jpeg_color_space};
    }
  }
  jpeg_destroy_decompress(&info);
  return header;
}

J_COLOR_SPACE LibraryColor(JpegColor color) {
  switch (color) {
    case JpegColor::kGray:
      return JCS_GRAYSCALE;
    case JpegColor::kYcbcr:
      return JCS_YCbCr;
    case JpegColor::kRgb:
      return JCS_RGB;
    case JpegColor::kCmyk:
      return JCS_CMYK;
    case JpegColor::kYcck:
      return JCS_YCCK;
  }
  return JCS_UNKNOWN;
}

DecodeLimits PickLimits(FuzzInput& input) {
  DecodeLimits limits;
  if (input.Happens(64)) limits.max_pixels = input.Integer(1, 1 << 20);
  if (input.Happens(64)) limits.max_side = input.Int(1, 1024);
  if (input.Happens(64)) limits.max_bytes = input.Integer(1, 4096);
  if (input.Happens(64)) limits.max_scans = input.Int(1, 20);
  limits.formats = {FileFormat::kJpeg};
  return limits;
}

}  // namespace
}  // namespace endcap::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace endcap;
  using namespace endcap::fuzz;
  FuzzInput input(data, size);
  const DecodeLimits limits = PickLimits(input);
  const std::vector<uint8_t> file = input.Rest();
  ImageHeader header;
  try {
    header = ReadHeader(ImageView::Encoded(file.data(), file.size()), limits);
  } catch (const Error& error) {
    Require(error.what()[0] != '\0', "an error without a message");
    return 0;
  }
  Require(header.width >= 1 && header.height >= 1, "an empty image was accepted");
  Require(header.width <= limits.max_side && header.height <= limits.max_side, "max_side exceeded");
  Require(int64_t{header.width} * header.height <= limits.max_pixels, "max_pixels exceeded");
  Require(static_cast<int64_t>(file.size()) <= limits.max_bytes, "max_bytes exceeded");
  Require(header.scan_count >= 1 && header.scan_count <= limits.max_scans, "max_scans exceeded");
  Require(header.orientation >= 1 && header.orientation <= 8, "orientation ", header.orientation);

  const LibraryHeader library = ReadByLibrary(file);
  if (!library.readable) return 0;  // it also looks into tables
  Require(library.width == header.width && library.height == header.height, "size ", header.width,
          "x", header.height, ", libjpeg-turbo's ", library.width, "x", library.height);
  Require(library.progressive == header.progressive, "progressive differs from libjpeg-turbo's");
  Require(library.color == LibraryColor(header.color), "color ", static_cast<int>(header.color),
          ", libjpeg-turbo's ", static_cast<int>(library.color));
  return 0;
}
