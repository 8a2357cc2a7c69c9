#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <vector>

#include "common/pixel_arithmetic.h"
#include "common/select_implementation.h"
#include "decode/jpeg_sampling.h"
#include "decode/libjpeg_session.h"
#include "decode/plane_bands.h"
#include "endcap/decode.h"

namespace endcap {
namespace {

// Rows a band: two rows of the largest MCU, small enough to stay in the second-level cache.
constexpr int kBandRows = 16;

using Clock = std::chrono::steady_clock;

int64_t NanosecondsSince(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
}

bool IsFourColor(JpegColor color) { return color == JpegColor::kCmyk || color == JpegColor::kYcck; }

J_COLOR_SPACE OutputColor(const ImageHeader& header, int channels) {
  if (IsFourColor(header.color)) return JCS_CMYK;
  if (channels == 4) return JCS_EXT_RGBX;
  return channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
}

// Ink is stored inverted (255: none), Adobe's convention, which Pillow and OpenCV take for granted.
void ConvertCmykRow(const uint8_t* cmyk, int width, int channels, uint8_t* out) {
  for (int x = 0; x < width; ++x, cmyk += 4, out += channels) {
    std::array<uint8_t, 3> rgb{};
    for (size_t c = 0; c < 3; ++c) rgb[c] = InvertedCmykChannel(cmyk[c], cmyk[3]);
    if (channels == 1) {
      out[0] = Luma(rgb[0], rgb[1], rgb[2]);
    } else {
      std::copy(rgb.begin(), rgb.end(), out);
    }
  }
}

// Reads rows into one band buffer after the other.
class BandReader {
 public:
  BandReader(LibjpegSession& session, const ImageHeader& header, const BandFormat& format)
      : session_(session),
        format_(format),
        four_color_(IsFourColor(header.color)),
        band_(RowBytes(format.channels) * kBandRows + kRowSlackBytes),
        cmyk_(four_color_ ? RowBytes(4) * kBandRows : 0) {}

  RowBand Read(int first_row) {
    const int wanted = std::min(kBandRows, format_.height - first_row);
    const size_t stride = RowBytes(four_color_ ? 4 : format_.channels);
    uint8_t* buffer = four_color_ ? cmyk_.data() : band_.data();
    for (int filled = 0; filled < wanted;) {
      std::array<JSAMPROW, kBandRows> rows{};
      for (int i = filled; i < wanted; ++i) {
        rows[static_cast<size_t>(i - filled)] = buffer + stride * static_cast<size_t>(i);
      }
      filled += session_.ReadRows(rows.data(), wanted - filled);
    }
    if (four_color_) ConvertCmyk(wanted);
    return {band_.data(), static_cast<ptrdiff_t>(RowBytes(format_.channels)), first_row, wanted};
  }

 private:
  size_t RowBytes(int channels) const {
    return static_cast<size_t>(format_.width) * static_cast<size_t>(channels);
  }
  void ConvertCmyk(int rows) {
    for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
      ConvertCmykRow(cmyk_.data() + row * RowBytes(4), format_.width, format_.channels,
                     band_.data() + row * RowBytes(format_.channels));
    }
  }

  LibjpegSession& session_;
  BandFormat format_;
  bool four_color_;
  std::vector<uint8_t> band_;
  std::vector<uint8_t> cmyk_;
};

}  // namespace

BandFormat DecodedFormat(const ImageHeader& header, const DecodeOptions& options) noexcept {
  const int denominator = options.scale_denominator;
  return {(header.width + denominator - 1) / denominator,
          (header.height + denominator - 1) / denominator, options.channels};
}

int64_t DecodeToBands(const ImageView& image, const ImageHeader& header,
                      const DecodeOptions& options, BandSink& sink) {
  const Implementation implementation = SelectImplementation(Stage::kDecode);
  auto start = Clock::now();
  const BandFormat format = DecodedFormat(header, options);
  LibjpegSession session({image.planes[0].data, image.size_bytes}, options.truncated);
  session.ReadHeader(header);
  session.SetOutput(OutputColor(header, options.channels), options.scale_denominator);
  std::optional<ChromaUpsampling> upsampling;
  if (implementation == Implementation::kSimd && options.channels != 1)
    upsampling = GetUpsampling(session.info());
  using Codes = LibjpegSession::Codes;
  session.Start(upsampling.has_value(),
                implementation == Implementation::kSimd ? Codes::kEntropyDecoder : Codes::kLibrary);
  int64_t decode_ns = NanosecondsSince(start);

  sink.Begin(format);
  const int end_row = std::min(sink.EndRow(), format.height);
  if (upsampling) {
    decode_ns += PlanesToBands(session, *upsampling, format, sink);
    session.CheckEnd(header, end_row);
    return decode_ns;
  }
  BandReader reader(session, header, format);
  for (int row = 0; row < end_row; row += kBandRows) {
    start = Clock::now();
    // Never to the end: the library would then not look at the rest of the file.
    if (const int next = sink.NextRow(row); next >= row + kBandRows && next < end_row) {
      session.SkipRows(next - row);
      row = next;
    }
    const RowBand band = reader.Read(row);
    decode_ns += NanosecondsSince(start);
    sink.Consume(band);
  }
  session.CheckEnd(header, end_row);
  return decode_ns;
}

}  // namespace endcap
