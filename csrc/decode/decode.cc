#include "endcap/decode.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "common/fail.h"
#include "common/select_implementation.h"
#include "common/steady_clock.h"
#include "decode/file_formats.h"
#include "decode/jpeg_bands.h"

namespace endcap {
namespace {

// Collects the part of the bands that lies in a window of the file's pixels.
class WindowSink : public BandSink {
 public:
  WindowSink(const PixelRect& window, PixelBuffer& buffer) : window_(window), buffer_(buffer) {}

  void Begin(const BandFormat& format) override {
    buffer_.format = {window_.width, window_.height, format.channels};
    pixel_bytes_ = static_cast<size_t>(format.channels);
    row_bytes_ = static_cast<size_t>(window_.width) * pixel_bytes_;
    const size_t slack = format.channels == 4 ? kRowSlackBytes : 0;
    buffer_.pixels.resize(row_bytes_ * static_cast<size_t>(window_.height) + slack);
  }
  void Consume(const RowBand& band) override {
    const int first = std::max(band.first_row, window_.y);
    const int end = std::min(band.first_row + band.row_count, window_.bottom());
    const uint8_t* columns = band.data + pixel_bytes_ * static_cast<size_t>(window_.x);
    for (int row = first; row < end; ++row) {
      std::memcpy(buffer_.pixels.data() + row_bytes_ * static_cast<size_t>(row - window_.y),
                  columns + band.row_stride_bytes * (row - band.first_row), row_bytes_);
    }
  }
  int EndRow() const override { return window_.bottom(); }
  int NextRow(int row) const override { return std::max(row, window_.y); }
  ColumnSpan Columns() const override { return {window_.x, window_.right()}; }

 private:
  PixelRect window_;
  PixelBuffer& buffer_;
  size_t pixel_bytes_ = 0;
  size_t row_bytes_ = 0;
};

// Wants no row but the last one: so the rows above are read and no pixels are made of them.
class LastRowSink : public BandSink {
 public:
  explicit LastRowSink(int end_row) : end_row_(end_row) {}

  void Begin(const BandFormat& /*format*/) override {}
  void Consume(const RowBand& /*band*/) override {}
  int EndRow() const override { return end_row_; }
  int NextRow(int row) const override { return std::max(row, end_row_ - 1); }
  ColumnSpan Columns() const override { return {0, 1}; }

 private:
  int end_row_;
};

// The rectangle of the file that is a window of the oriented image.
PixelRect StoredWindow(const BandFormat& stored, int orientation, const PixelRect& window) {
  const OrientationTransform transform = GetOrientationTransform(orientation);
  PixelRect rect = window;
  if (transform.swap_axes) rect = {window.y, window.x, window.height, window.width};
  if (transform.from_right) rect.x = stored.width - rect.right();
  if (transform.from_bottom) rect.y = stored.height - rect.bottom();
  return rect;
}

J_COLOR_SPACE OutputColor(const ImageHeader& header, int channels) {
  if (header.color == JpegColor::kCmyk || header.color == JpegColor::kYcck) return JCS_CMYK;
  if (channels == 4) return JCS_EXT_RGBX;
  return channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
}

DecodeReport JpegToBands(const ImageView& image, const ImageHeader& header,
                         const DecodeOptions& options, BandSink& sink, Crew* crew) {
  const int64_t start = SteadyNowNs();
  const std::span file(image.planes[0].data, image.size_bytes);
  const BandFormat format = DecodedFormat(header, options);
  if (SelectImplementation(Stage::kDecode) == Implementation::kSimd) {
    PlaneDecoder decoder(file, header, options);
    if (decoder.has_pixels()) {
      decoder.Start();
      int64_t decode_ns = SteadyNowNs() - start;
      sink.Begin(format);
      decode_ns += PlanesToBands(decoder, format, sink, crew);
      decoder.CheckEnd(std::min(sink.EndRow(), format.height));
      return {decode_ns, decoder.damage()};
    }
  }
  LibjpegSession session(file, options);
  session.ReadHeader(header);
  session.SetOutput(OutputColor(header, options.channels), options.eighths);
  session.Start(/*raw=*/false);
  int64_t decode_ns = SteadyNowNs() - start;
  sink.Begin(format);
  decode_ns += RowsToBands(session, format, sink);
  session.CheckEnd(header, std::min(sink.EndRow(), format.height));
  return {decode_ns, session.damage()};
}

DecodeReport OtherFormatToBands(const ImageView& image, const ImageHeader& header,
                                const DecodeOptions& options, BandSink& sink) {
  const int64_t start = SteadyNowNs();
  const std::span file(image.planes[0].data, image.size_bytes);
  const BandFormat format = DecodedFormat(header, options);
  sink.Begin(format);
  StoredRows rows(format, options.alpha, sink);
  FileToRows(file, header, rows);
  return {SteadyNowNs() - start - rows.sink_ns(), {}};
}

}  // namespace

BandFormat DecodedFormat(const ImageHeader& header, const DecodeOptions& options) noexcept {
  if (header.format != FileFormat::kJpeg) return {header.width, header.height, options.channels};
  return {ScaledSize(header.width, options.eighths), ScaledSize(header.height, options.eighths),
          options.channels};
}

DecodeReport DecodeToBands(const ImageView& image, const ImageHeader& header,
                           const DecodeOptions& options, BandSink& sink, Crew* crew) {
  return header.format == FileFormat::kJpeg ? JpegToBands(image, header, options, sink, crew)
                                            : OtherFormatToBands(image, header, options, sink);
}

PixelBuffer DecodeWindow(const ImageView& image, const ImageHeader& header,
                         const DecodeOptions& options, int orientation, const PixelRect& window,
                         DecodeReport& report) {
  PixelBuffer stored;
  WindowSink sink(StoredWindow(DecodedFormat(header, options), orientation, window), stored);
  report = DecodeToBands(image, header, options, sink);
  return orientation == 1 ? stored : ApplyOrientation(stored, orientation);
}

DecodeReport CheckDecodes(const ImageView& image, const ImageHeader& header,
                          const DecodeOptions& options) {
  LastRowSink sink(DecodedFormat(header, options).height);
  return DecodeToBands(image, header, options, sink);
}

DecodeReport CheckDecodes(const ImageView& image, const ImageHeader& header,
                          const DecodeOptions& options, int orientation, const PixelRect& window) {
  LastRowSink sink(StoredWindow(DecodedFormat(header, options), orientation, window).bottom());
  return DecodeToBands(image, header, options, sink);
}

PixelBuffer DecodeOriented(const ImageView& image, const ImageHeader& header,
                           const DecodeOptions& options, int orientation, DecodeReport& report) {
  const BandFormat stored = DecodedFormat(header, options);
  PixelRect whole{0, 0, stored.width, stored.height};
  if (GetOrientationTransform(orientation).swap_axes) std::swap(whole.width, whole.height);
  return DecodeWindow(image, header, options, orientation, whole, report);
}

PixelBuffer Decode(const ImageView& image, const DecodeLimits& limits, const DecodeOptions& options,
                   bool apply_orientation) {
  const ImageHeader header = ReadHeader(image, limits, options.damaged);
  DecodeReport report;
  return DecodeOriented(image, header, options, apply_orientation ? header.orientation : 1, report);
}

}  // namespace endcap
