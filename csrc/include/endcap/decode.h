#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "endcap/image_view.h"

namespace endcap {

// Formats of image files that can be decoded, by their first bytes. Of a GIF and an animated WebP
// that is the first frame. A Y4M file is a frame of YUV pixels with a header of text: what video is
// sent as.
enum class FileFormat : int32_t { kJpeg, kPng, kWebp, kBmp, kGif, kY4m };

// A set of formats: those that a service accepts.
class FileFormats {
 public:
  constexpr FileFormats() = default;
  constexpr FileFormats(std::initializer_list<FileFormat> formats) {
    for (const FileFormat format : formats) Add(format);
  }
  constexpr void Add(FileFormat format) noexcept { bits_ |= Bit(format); }
  constexpr bool Contains(FileFormat format) const noexcept { return (bits_ & Bit(format)) != 0; }
  constexpr bool empty() const noexcept { return bits_ == 0; }

 private:
  static constexpr uint32_t Bit(FileFormat format) noexcept {
    return uint32_t{1} << static_cast<uint32_t>(format);
  }
  uint32_t bits_ = 0;
};

// "JPEG", "PNG", ...
std::string_view FileFormatName(FileFormat format) noexcept;

// Limits of an encoded image. ReadHeader checks all of them before anything is allocated; an image
// that exceeds one is kImageLimit. Test: tests/python/core/test_preprocess_params.py.
struct DecodeLimits {
  int64_t max_pixels = 89478485;  // width * height; Pillow's limit for the same purpose
  int max_side = 65500;           // pixels
  int64_t max_bytes = int64_t{64} << 20;
  int max_scans = 500;  // scans of a progressive or multi-scan file
  // Bytes of DCT coefficients of the whole image, which are in memory while a progressive or
  // multi-scan file is decoded: 138 for each 8x8 block of each component. The default suffices for
  // a file of 83 megapixels at 4:2:0, and of 41 at 4:4:4.
  int64_t max_coefficient_bytes = int64_t{256} << 20;
  // Bytes that the decoder holds of a whole image in a file that cannot be read row by row: 3 to 9
  // a pixel in a WebP, up to 4 in an interlaced PNG, 1 in an interlaced GIF or a compressed BMP.
  int64_t max_decoded_bytes = int64_t{256} << 20;
  // A file of another format is kUnsupported: its decoder is not called at all.
  FileFormats formats = {FileFormat::kJpeg, FileFormat::kPng, FileFormat::kWebp, FileFormat::kY4m};
  // Scans times pixels may be at most this many max_pixels, because each scan covers the whole
  // image: this bounds the decoding time. Encoders write about 10 scans.
  static constexpr int kMaxScanWork = 20;
};

// Throws kImageLimit when width, height (pixels) or their product exceeds the limits.
void CheckSizeLimits(int width, int height, const DecodeLimits& limits);

// How a JPEG whose image data ends early is treated; such a file of another format is always
// kCorruptImage. A file with all of its image data that lacks
// only the end marker (EOI) does not count as truncated, unless it is progressive or multi-scan.
enum class Truncated : int32_t {
  kReject,  // kCorruptImage
  kAccept,  // decoded as libjpeg-turbo conceals it: missing parts are gray or remain coarse
};

// How a JPEG is treated whose data is damaged, so that libjpeg-turbo warns and makes up pixels: a
// restart marker is lost or misnumbered, a code is wrong, the data of a scan or the file ends
// early.
enum class Damaged : int32_t {
  kReject,  // kCorruptImage
  // libjpeg-turbo's own pixels, bit for bit, also of truncated files. What it refuses, too, stays
  // corrupt; with Truncated::kAccept in addition, not a file cut in a segment between two scans.
  kAccept,
};

// What becomes of the alpha channel of a PNG, WebP, BMP or GIF.
enum class Alpha : int32_t {
  kDrop,   // transparent pixels have the color stored below, as by OpenCV and Pillow
  kWhite,  // pixels are laid on white, as viewers show them
};

enum class JpegColor : int32_t { kGray, kYcbcr, kRgb, kCmyk, kYcck };

// The properties of an image file, from one pass over its markers or chunks.
struct ImageHeader {
  FileFormat format = FileFormat::kJpeg;
  int width = 0;  // pixels as stored, before EXIF orientation
  int height = 0;
  int orientation = 1;  // EXIF, 1 to 8; 1 where the file has none or a damaged one
  // Of JPEGs alone.
  JpegColor color = JpegColor::kYcbcr;
  bool progressive = false;
  int scan_count = 1;
  bool lacks_component = false;  // no scan holds one of the components; with Damaged::kAccept alone

  // Sizes after orientation: 5 to 8 swap the axes.
  int oriented_width() const noexcept { return orientation >= 5 ? height : width; }
  int oriented_height() const noexcept { return orientation >= 5 ? width : height; }
};

// Reads and checks the header of an encoded image; allocates nothing.
// Throws kCorruptImage (empty, not an image, damaged markers, zero size, or, with Damaged::kReject,
// a component without a scan or fewer bytes than an image of that size can have), kImageLimit,
// kUnsupported (a format that is not accepted or known; JPEGs of 12 bits, arithmetic coding,
// lossless, hierarchical, component counts other than 1, 3 and 4). Thread-safe, like all functions
// of this header. Source: ITU-T T.81 annex B; Exif 2.3 section 4.6; of the other formats their
// files in csrc/decode.
ImageHeader ReadHeader(const ImageView& image, const DecodeLimits& limits,
                       Damaged damaged = Damaged::kReject);

// The planes of a Y4M file, which are read in place; nothing for another image. Throws as
// ReadHeader.
std::optional<ImageView> ViewY4mPlanes(const ImageView& image, const DecodeLimits& limits);

// The file in base64 text; nothing for an image that is not such text. Text counts as base64 if the
// file in it begins as one that ReadHeader knows, which no image file does itself, or if it is a
// data URL of an image ("data:image/...;base64,"). The alphabet is that of base64 or base64url;
// padding may be missing, and lines may be broken. Throws kCorruptImage for damaged text, and
// kImageLimit before any allocation when the file has more than max_bytes.
std::optional<std::vector<uint8_t>> DecodeBase64(const ImageView& image,
                                                 const DecodeLimits& limits);

struct DecodeOptions {
  // 3: RGB; 4: RGB and an undefined byte; 1: gray (the luma of the file, as in libjpeg-turbo).
  int channels = 3;
  // 1 to 8: decode at that many eighths of the size, by DCT scaling. For JPEGs alone, ignored for
  // other files.
  int eighths = 8;
  Truncated truncated = Truncated::kReject;
  Damaged damaged = Damaged::kReject;
  Alpha alpha = Alpha::kDrop;
};

// What a call tells about the decoding of a file.
struct DecodeReport {
  int64_t decode_ns = 0;  // time spent in the decoder, without the sink
  // With Damaged::kAccept, the first thing for which kReject would have refused the file; empty:
  // none that was seen. A wrong code that libjpeg-turbo takes for a zero without a warning is not.
  std::string damage;
};

// The width or height of a JPEG at that many eighths of its size.
constexpr int ScaledSize(int size, int eighths) noexcept {
  return static_cast<int>((int64_t{size} * eighths + 7) / 8);
}

// Size and channels: of the rows of a sink before orientation; of a PixelBuffer its own.
struct BandFormat {
  int width = 0;     // pixels
  int height = 0;    // pixels
  int channels = 0;  // 1: gray; 3: R, G, B; 4: R, G, B and an undefined byte
};

// A whole image in memory: interleaved, rows dense.
struct PixelBuffer {
  BandFormat format;
  std::vector<uint8_t> pixels;  // height * width * channels; with four channels kRowSlackBytes more
};

// Whole pixels of an image.
struct PixelRect {
  int x = 0;
  int y = 0;
  int width = 0;
  int height = 0;

  int right() const noexcept { return x + width; }
  int bottom() const noexcept { return y + height; }
};

// Decodes a whole image and applies `orientation` (1 to 8). Errors as DecodeToBands.
PixelBuffer DecodeOriented(const ImageView& image, const ImageHeader& header,
                           const DecodeOptions& options, int orientation, DecodeReport& report);

// The same for a rectangle of the oriented image, which must lie inside it. Its pixels equal those
// of the whole image. Only the rectangle is kept in memory; damage in rows of the file below it is
// not detected.
PixelBuffer DecodeWindow(const ImageView& image, const ImageHeader& header,
                         const DecodeOptions& options, int orientation, const PixelRect& window,
                         DecodeReport& report);

// Throws as DecodeOriented, or with `window` as DecodeWindow, without keeping pixels.
DecodeReport CheckDecodes(const ImageView& image, const ImageHeader& header,
                          const DecodeOptions& options);
DecodeReport CheckDecodes(const ImageView& image, const ImageHeader& header,
                          const DecodeOptions& options, int orientation, const PixelRect& window);

// Reads the header and decodes a whole image, with the file's EXIF orientation applied where
// `apply_orientation` is true. Errors as ReadHeader and DecodeToBands.
PixelBuffer Decode(const ImageView& image, const DecodeLimits& limits, const DecodeOptions& options,
                   bool apply_orientation);

// --- EXIF orientation
//
// A camera stores the rows as its sensor lies, and notes in the EXIF orientation tag (1 to 8) how
// the image is to be shown. ReadHeader reads the tag. ApplyOrientation, DecodeOriented and
// DecodeWindow are the definition: they move pixels (orientation.cc, decode.cc). Preprocess applies
// the orientation by default (PreprocessParams::exif), and where it can without moving pixels:
// csrc/preprocess/image_to_tensor.cc chooses; csrc/preprocess/resize/band_resizer.h mirrors and
// transposed_resizer.h swaps the axes; on a GPU csrc/preprocess/cuda/fused_rows.cuh flips rows and
// swaps the axes, MakeRows of fused_preprocess.cu flips columns, both while reading. The tensor is
// the same as if the pixels had been moved first.
//
// Boxes are mapped back (csrc/common/map_box.h) to the source image, as it was preprocessed: with
// exif=apply the oriented one, which viewers and PIL.ImageOps.exif_transpose show; with
// exif=ignore, the default of the presets torchvision, inception, rtdetr, rfdetr and ssd, the
// stored one.
//
// Tests, each for all eight values: tests/python/core/test_decode.py, of regions test_rois.py, of
// preprocess test_preprocess.py and, for each implementation, tests/cpp/implementations_test.cc and
// tests/cpp/fused_kernel_test.cc; boxes:
// tests/python/core/test_postprocess.py; damaged tags: Exif.DamageIsHarmless.
//
// Which number counts is Pillow's rule (Image.getexif), also where the Exif standard has another:
//
// | in the file                                   | orientation                                |
// | --------------------------------------------- | ------------------------------------------ |
// | SHORT, LONG, SBYTE, SSHORT, SLONG, IFD, LONG8 | the number; of several values the first    |
// | RATIONAL, SRATIONAL, FLOAT, DOUBLE            | the same where the number is whole         |
// | BYTE, UNDEFINED, ASCII; a number not 1 to 8   | 1                                          |
// | an unknown type, or a count of 0              | the entry is skipped                       |
// | two entries                                   | the first                                  |
// | an entry before it with values past the end   | 1                                          |
// | II or MM, with 42 in either order of bytes    | read in the order of II or MM              |
// | XMP or other APP1 segments before Exif        | skipped                                    |
// | several Exif segments                         | one block in parts: IFD0 of the first      |
// | IFDs of the thumbnail, of Exif and of GPS     | not read                                   |
// | XMP with tiff:Orientation, and no other       | not read: Pillow reads it, OpenCV does not |
//
// tests/python/core/test_exif_orientation.py compares each with Pillow.

// Returns the orientation, 1 to 8, in an Exif block, which may come in parts and begin with one or
// two prefixes "Exif\0\0"; 1 if it has none or is damaged. Reads IFD0 only, so that offsets cannot
// form a cycle. Source: Exif 2.3, sections 4.6.2 and 4.6.4; TIFF 6.0, section 2.
int ReadExifOrientation(std::span<const std::span<const uint8_t>> parts) noexcept;

// How an orientation maps the oriented image to the stored one: the stored position of pixel (0, 0)
// and of its right neighbour. Source: Exif 2.3, orientation tag.
struct OrientationTransform {
  bool swap_axes = false;    // oriented columns are stored rows
  bool from_right = false;   // it starts in the last stored column
  bool from_bottom = false;  // it starts in the last stored row
};

// Throws kInvalidArgument for an orientation that is not 1 to 8.
OrientationTransform GetOrientationTransform(int orientation);

// Rotates and mirrors an image according to an EXIF orientation. Throws kInvalidArgument for an
// orientation that is not 1 to 8.
PixelBuffer ApplyOrientation(const PixelBuffer& image, int orientation);

}  // namespace endcap
