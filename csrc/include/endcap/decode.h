#pragma once

#include <cstdint>
#include <vector>

#include "endcap/image_view.h"
#include "endcap/row_band.h"

namespace endcap {

// What an encoded image may claim. All are checked on the header, before any allocation.
struct DecodeLimits {
  int64_t max_pixels = 89478485;  // width * height; Pillow's limit for the same purpose
  int max_side = 65500;           // pixels
  int64_t max_bytes = int64_t{64} << 20;
  int max_scans = 500;  // scans of a progressive or multi-scan file
  // Bytes of DCT coefficients, which a progressive or multi-scan file keeps of the whole image
  // while it is decoded: 128 for each 8x8 block of each component, 136 in a progressive file. The
  // default suffices for a progressive file of 84 megapixels at 4:2:0, and of 42 at 4:4:4.
  int64_t max_coefficient_bytes = int64_t{256} << 20;
  // Each scan walks the whole image, so scans times pixels may be at most this many max_pixels:
  // decoding time stays bounded. Encoders write about 10 scans.
  static constexpr int kMaxScanWork = 20;
};

// Throws kImageLimit when width, height (pixels) or their product is beyond the limits.
void CheckSizeLimits(int width, int height, const DecodeLimits& limits);

// What becomes of a JPEG whose image data ends early. A file that keeps all of its image data and
// lacks no more than the end marker (EOI) is not one, unless it is progressive or multi-scan.
enum class Truncated : int32_t {
  kReject,  // kCorruptImage
  kAccept,  // decoded as libjpeg-turbo conceals it: what is missing is gray, or stays coarse
};

enum class JpegColor : int32_t { kGray, kYcbcr, kRgb, kCmyk, kYcck };

// What one pass over the markers of a JPEG tells.
struct ImageHeader {
  int width = 0;  // pixels as stored, before EXIF orientation
  int height = 0;
  int orientation = 1;  // EXIF, 1 to 8; 1 where the file has none or a damaged one
  JpegColor color = JpegColor::kYcbcr;
  bool progressive = false;
  int scan_count = 1;

  // Sizes after orientation: 5 to 8 swap the axes.
  int oriented_width() const noexcept { return orientation >= 5 ? height : width; }
  int oriented_height() const noexcept { return orientation >= 5 ? width : height; }
};

// Reads and checks the header of an encoded image; allocates nothing.
// Throws kCorruptImage (empty, not a JPEG, damaged markers, zero size, or fewer bytes than the
// claimed size needs at the very least), kImageLimit, kUnsupported (12 bits, arithmetic coding,
// lossless, hierarchical, component counts other than 1, 3 and 4).
// Source: ITU-T T.81 annex B; Exif 2.3 section 4.6.
ImageHeader ReadHeader(const ImageView& image, const DecodeLimits& limits);

struct DecodeOptions {
  // 3: RGB; 4: RGB and a byte that means nothing; 1: gray (the file's luma, as libjpeg-turbo gives
  // it).
  int channels = 3;
  int scale_denominator = 1;  // 1, 2, 4 or 8: decode at this fraction by DCT scaling
  Truncated truncated = Truncated::kReject;
};

// Width and height of the decoded image under `options`, before orientation.
BandFormat DecodedFormat(const ImageHeader& header, const DecodeOptions& options) noexcept;

// Decodes with libjpeg-turbo's default pixels and hands the rows, as stored in the file, to `sink`.
// `header` must come from ReadHeader on the same bytes. Returns the nanoseconds spent in the
// decoder, without the sink's. Throws kCorruptImage for truncated and damaged data; kUnsupported.
//
// Where the sink needs rows of the last MCU row, a sequential file of one scan without an end
// marker is taken to be truncated as well when bytes follow its last MCU, or when it ends in zeros:
// padding decodes like image data. A sink that stops earlier does not see this.
//
// Paths: decode_scalar takes the library's own rows. decode_simd takes its planes, and does chroma
// upsampling and color conversion itself, with the same result, for the rows that the sink needs;
// for colors and samplings that it does not know (CMYK, RGB, 4:1:1) it takes the rows as
// well. Both leave out the inverse DCT of rows that the sink passes over.
int64_t DecodeToBands(const ImageView& image, const ImageHeader& header,
                      const DecodeOptions& options, BandSink& sink);

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

// Decodes a whole image and turns it as `orientation` (1 to 8) asks. Adds the nanoseconds spent in
// decoding to `decode_ns`. Errors as DecodeToBands.
PixelBuffer DecodeOriented(const ImageView& image, const ImageHeader& header,
                           const DecodeOptions& options, int orientation, int64_t& decode_ns);

// The same for the part of the turned image that `window` cuts out, which lies inside it: its
// pixels are those of the whole image's. Only the window is kept in memory; damage in rows of the
// file below it is not seen.
PixelBuffer DecodeWindow(const ImageView& image, const ImageHeader& header,
                         const DecodeOptions& options, int orientation, const PixelRect& window,
                         int64_t& decode_ns);

// Reads a file as DecodeOriented does, or with `window` as DecodeWindow, for the errors alone:
// makes pixels of the last row only and keeps none. Returns the nanoseconds spent in decoding.
int64_t CheckDecodes(const ImageView& image, const ImageHeader& header,
                     const DecodeOptions& options);
int64_t CheckDecodes(const ImageView& image, const ImageHeader& header,
                     const DecodeOptions& options, int orientation, const PixelRect& window);

// Reads the header and decodes a whole image; apply_orientation turns it oriented by EXIF. Errors
// as ReadHeader and DecodeToBands.
PixelBuffer Decode(const ImageView& image, const DecodeLimits& limits, const DecodeOptions& options,
                   bool apply_orientation);

// Where pixel (0, 0) of the oriented image stands in the stored one, and where its right neighbour
// does. Source: Exif 2.3, orientation tag.
struct OrientationTransform {
  bool swap_axes = false;    // oriented columns are stored rows
  bool from_right = false;   // it starts in the last stored column
  bool from_bottom = false;  // it starts in the last stored row
};

// Throws kInvalidArgument for an orientation that is not 1 to 8.
OrientationTransform GetOrientationTransform(int orientation);

// Turns and mirrors an image as EXIF orientation 1 to 8 asks.
PixelBuffer ApplyOrientation(const PixelBuffer& image, int orientation);

}  // namespace endcap
