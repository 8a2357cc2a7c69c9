#include <algorithm>
#include <array>
#include <vector>

#include "common/color_conversion.h"
#include "common/steady_clock.h"
#include "decode/jpeg_bands.h"

namespace endcap {
namespace {

// Rows a band: two rows of the largest MCU, small enough to stay in the second-level cache.
constexpr int kBandRows = 16;

// Reads rows into one band buffer after the other.
class BandReader {
 public:
  BandReader(LibjpegSession& session, const BandFormat& format)
      : session_(session),
        format_(format),
        four_color_(session.info().out_color_space == JCS_CMYK),
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
      const uint8_t* cmyk = cmyk_.data() + row * RowBytes(4);
      ConvertCmykRow({cmyk, cmyk + 1, cmyk + 2, cmyk + 3}, 4, format_.width, format_.channels,
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

void ConvertCmykRow(const std::array<const uint8_t*, 4>& ink, int step, int width, int channels,
                    uint8_t* out) {
  for (ptrdiff_t at = 0; at < ptrdiff_t{width} * step; at += step, out += channels) {
    std::array<uint8_t, 3> rgb{};
    for (size_t c = 0; c < 3; ++c) rgb[c] = InvertedCmykChannel(ink[c][at], ink[3][at]);
    if (channels == 1) {
      out[0] = Luma(rgb[0], rgb[1], rgb[2]);
    } else {
      std::copy(rgb.begin(), rgb.end(), out);
    }
  }
}

int64_t RowsToBands(LibjpegSession& session, const BandFormat& format, BandSink& sink) {
  int64_t decode_ns = 0;
  const int end_row = std::min(sink.EndRow(), format.height);
  BandReader reader(session, format);
  for (int row = 0; row < end_row; row += kBandRows) {
    const int64_t start = SteadyNowNs();
    // Never to the end: the library would then not read the rest of the file.
    if (const int next = sink.NextRow(row); next >= row + kBandRows && next < end_row) {
      session.SkipRows(next - row);
      row = next;
    }
    const RowBand band = reader.Read(row);
    decode_ns += SteadyNowNs() - start;
    sink.Consume(band);
  }
  return decode_ns;
}

}  // namespace endcap
