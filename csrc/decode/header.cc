#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>

#include "common/fail.h"
#include "decode/file_formats.h"
#include "endcap/decode.h"

// ReadHeader: the format and all limits, before anything is allocated.

namespace endcap {
namespace {

using namespace std::string_view_literals;

// What the first bytes of a file may be.
struct Signature {
  size_t offset;
  std::string_view bytes;
  std::string_view phrase;
  std::string_view advice;
};

constexpr std::string_view kMagick = ": convert it first, for example with `magick IN out.png`";
constexpr std::string_view kVideo =
    ": take frames out of it first, for example with `ffmpeg -i IN frame_%04d.jpg`";

// Images, and what holds images, of formats that are not decoded.
constexpr std::array kOtherFormats = {
    Signature{4, "ftypavif"sv, "an AVIF image", kMagick},
    Signature{4, "ftypavis"sv, "an AVIF image", kMagick},
    Signature{4, "ftyphei"sv, "a HEIF image", kMagick},
    Signature{4, "ftyphev"sv, "a HEIF image", kMagick},
    Signature{4, "ftypmif1"sv, "a HEIF image", kMagick},
    Signature{4, "ftypmsf1"sv, "a HEIF image", kMagick},
    Signature{4, "ftyp"sv, "a video or another ISO media file", kVideo},
    Signature{0, "II*\0"sv, "a TIFF image", kMagick},
    Signature{0, "MM\0*"sv, "a TIFF image", kMagick},
    Signature{0, "\0\0\0\x0cjP  "sv, "a JPEG 2000 image", kMagick},
    Signature{0, "\xFF\x0A"sv, "a JPEG XL image", kMagick},
    Signature{0, "\0\0\0\x0cJXL "sv, "a JPEG XL image", kMagick},
    Signature{0, "8BPS"sv, "a Photoshop image", kMagick},
    Signature{0, "\x1A\x45\xDF\xA3"sv, "a Matroska or WebM video", kVideo},
    Signature{8, "AVI "sv, "an AVI video", kVideo},
};

// No images at all.
constexpr std::array kOtherData = {
    Signature{0, "%PDF"sv, "a PDF document", {}},
    Signature{0, "<"sv, "markup text", {}},
    Signature{0, "{"sv, "JSON text", {}},
    Signature{0, "--"sv, "a multipart form: send the file's bytes alone", {}},
};

bool Holds(std::string_view data, size_t offset, std::string_view bytes) noexcept {
  return data.size() >= offset && data.substr(offset).starts_with(bytes);
}

const Signature* Find(std::span<const Signature> signatures, std::string_view data) noexcept {
  const auto found = std::ranges::find_if(
      signatures, [&](const Signature& s) { return Holds(data, s.offset, s.bytes); });
  return found == signatures.end() ? nullptr : &*found;
}

std::optional<FileFormat> DetectFormat(std::string_view data) noexcept {
  if (Holds(data, 0, "\xFF\xD8\xFF"sv)) return FileFormat::kJpeg;
  if (Holds(data, 0, "\x89PNG\r\n\x1a\n"sv)) return FileFormat::kPng;
  if (Holds(data, 0, "RIFF"sv) && Holds(data, 8, "WEBP"sv)) return FileFormat::kWebp;
  if (Holds(data, 0, "GIF87a"sv) || Holds(data, 0, "GIF89a"sv)) return FileFormat::kGif;
  if (Holds(data, 0, "BM"sv)) return FileFormat::kBmp;
  if (Holds(data, 0, kY4mSignature)) return FileFormat::kY4m;
  return std::nullopt;
}

// Throws for a file of a format that is not known or not accepted.
FileFormat AcceptedFormat(std::string_view data, const DecodeLimits& limits) {
  const std::optional<FileFormat> format = DetectFormat(data);
  if (!format) {
    if (const Signature* other = Find(kOtherFormats, data)) {
      Fail(ErrorCode::kUnsupported, "the data is ", other->phrase, ", which is not decoded",
           other->advice);
    }
    if (const std::optional<std::string_view> text = FindBase64(data)) {
      CheckBase64(*text, limits);
      FailCorrupt(
          "the data is not an image: it is base64 text (", data.size(),
          " bytes): send the bytes of the file, or let preprocess accept text by its parameter "
          "`base64`");
    }
    const Signature* other = Find(kOtherData, data);
    FailCorrupt("the data is not an image: it is ",
                other != nullptr ? other->phrase : "of an unknown format", " (", data.size(),
                " bytes)");
  }
  if (!limits.formats.Contains(*format)) {
    Fail(ErrorCode::kUnsupported, "the data is a ", FileFormatName(*format),
         " image, which the parameter `formats` does not accept: add it there, in the config.pbtxt "
         "of the model that decodes or as formats= in Python, or convert the image");
  }
  return *format;
}

struct FormatReader {
  std::string_view name;
  ImageHeader (*read_header)(std::span<const uint8_t> file, const DecodeLimits& limits);
  void (*read_rows)(std::span<const uint8_t> file, const ImageHeader& header, StoredRows& rows);
};

// In the order of FileFormat. The reader of JPEGs has other arguments.
constexpr FormatReader kReaders[] = {
    {"JPEG"sv, nullptr, nullptr},           {"PNG"sv, ReadPngHeader, PngToRows},
    {"WebP"sv, ReadWebpHeader, WebpToRows}, {"BMP"sv, ReadBmpHeader, BmpToRows},
    {"GIF"sv, ReadGifHeader, GifToRows},    {"Y4M"sv, ReadY4mHeader, nullptr}};

const FormatReader& ReaderOf(FileFormat format) { return kReaders[static_cast<size_t>(format)]; }

}  // namespace

std::string_view FileFormatName(FileFormat format) noexcept { return ReaderOf(format).name; }

void FileToRows(std::span<const uint8_t> file, const ImageHeader& header, StoredRows& rows) {
  const FormatReader& reader = ReaderOf(header.format);
  if (reader.read_rows == nullptr) {
    Fail(ErrorCode::kUnsupported, "a ", reader.name,
         " file holds planes of YUV, not RGB: preprocess it, for example with fit=stretch and the "
         "size of the frame");
  }
  reader.read_rows(file, header, rows);
}

bool BeginsAsFile(std::string_view beginning) noexcept {
  if (DetectFormat(beginning)) return true;
  const Signature* other = Find(kOtherFormats, beginning);
  // Two bytes, as JPEG XL has, are the beginning of many texts, too.
  return other != nullptr && other->bytes.size() > 2;
}

void CheckByteLimit(size_t size_bytes, const DecodeLimits& limits) {
  if (size_bytes > static_cast<size_t>(limits.max_bytes)) {
    Fail(ErrorCode::kImageLimit, "the image has ", size_bytes, " bytes; max_bytes allows ",
         limits.max_bytes);
  }
}

std::string_view AdviseOnDroppedZeros(std::span<const uint8_t> file) noexcept {
  if (file.empty() || file.back() == 0) return {};
  return "; if it comes from a NumPy array of type bytes_ (S), which drops zeros at the end, make "
         "the array with np.object_"sv;
}

void CheckSizeLimits(int width, int height, const DecodeLimits& limits) {
  if (std::max(width, height) > limits.max_side) {
    Fail(ErrorCode::kImageLimit, "the image is ", width, "x", height, " pixels; max_side allows ",
         limits.max_side, " a side");
  }
  const int64_t pixels = int64_t{width} * height;
  if (pixels > limits.max_pixels) {
    Fail(ErrorCode::kImageLimit, "the image is ", width, "x", height, " = ", pixels,
         " pixels; max_pixels allows ", limits.max_pixels);
  }
}

void CheckDecodedLimit(FileFormat format, int64_t bytes, const DecodeLimits& limits) {
  if (bytes > limits.max_decoded_bytes) {
    Fail(ErrorCode::kImageLimit, "the ", FileFormatName(format), " is decoded whole, which takes ",
         bytes, " bytes; max_decoded_bytes allows ", limits.max_decoded_bytes);
  }
}

void FailChanged(FileFormat format) {
  FailCorrupt("the ", FileFormatName(format),
              "'s bytes changed while it was decoded: do not write to them during the call");
}

ImageHeader ReadHeader(const ImageView& image, const DecodeLimits& limits, Damaged damaged) {
  const std::span file(image.planes[0].data, image.size_bytes);
  if (image.format != PixelFormat::kEncoded) FailArgument("the image holds pixels, not a file");
  if (image.device != Device::kCpu) {
    Fail(ErrorCode::kUnsupported, "the file is in GPU memory; this build reads CPU memory only");
  }
  if (file.data() == nullptr || file.empty()) FailCorrupt("the image is empty (0 bytes)");
  const FileFormat format = AcceptedFormat(
      std::string_view(reinterpret_cast<const char*>(file.data()), file.size()), limits);
  CheckByteLimit(file.size(), limits);
  if (format == FileFormat::kJpeg) return ReadJpegHeader(file, limits, damaged);
  return ReaderOf(format).read_header(file, limits);
}

}  // namespace endcap
