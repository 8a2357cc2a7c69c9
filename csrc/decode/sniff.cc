#include "decode/sniff.h"

#include <array>

namespace endcap {
namespace {

struct Signature {
  size_t offset;
  std::string_view bytes;
  std::string_view phrase;
};

using namespace std::string_view_literals;

constexpr std::array kSignatures = {
    Signature{0, "\x89PNG\r\n\x1a\n"sv, "a PNG image"},
    Signature{0, "GIF8"sv, "a GIF image"},
    Signature{0, "BM"sv, "a BMP image"},
    Signature{8, "WEBP"sv, "a WebP image"},
    Signature{4, "ftyp"sv, "an ISO media file (HEIC, AVIF or MP4)"},
    Signature{0, "II*\0"sv, "a TIFF image"},
    Signature{0, "MM\0*"sv, "a TIFF image"},
    Signature{0, "\0\0\0\x0cjP  "sv, "a JPEG 2000 image"},
    Signature{0, "%PDF"sv, "a PDF document"},
    Signature{0, "<"sv, "markup text"},
    Signature{0, "{"sv, "JSON text"},
    Signature{0, "/9j/"sv, "base64 text of a JPEG: send the bytes themselves"},
};

}  // namespace

bool IsJpeg(const uint8_t* bytes, size_t size) noexcept {
  return size >= 3 && bytes[0] == 0xFF && bytes[1] == 0xD8 && bytes[2] == 0xFF;
}

std::string_view DescribeFormat(const uint8_t* bytes, size_t size) noexcept {
  const std::string_view data(reinterpret_cast<const char*>(bytes), size);
  for (const Signature& signature : kSignatures) {
    if (size >= signature.offset && data.substr(signature.offset).starts_with(signature.bytes)) {
      return signature.phrase;
    }
  }
  return "of an unknown format";
}

}  // namespace endcap
