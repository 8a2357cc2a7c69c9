#include <algorithm>
#include <array>
#include <vector>

#include "common/color_conversion.h"
#include "common/steady_clock.h"
#include "decode/jpeg_bands.h"

namespace endcap {

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
  constexpr int kLeastSkip = 16;  // rows
  const bool four_color = session.info().out_color_space == JCS_CMYK;
  const auto width = static_cast<size_t>(format.width);
  const size_t row_bytes = width * static_cast<size_t>(format.channels);
  std::vector<uint8_t> pixels(row_bytes + kRowSlackBytes);
  std::vector<uint8_t> cmyk(four_color ? 4 * width : 0);
  int64_t decode_ns = 0;
  const int end_row = std::min(sink.EndRow(), format.height);
  for (int row = 0; row < end_row; ++row) {
    const int64_t start = SteadyNowNs();
    // Never to the end: the library would then not read the rest of the file.
    if (const int next = sink.NextRow(row); next >= row + kLeastSkip && next < end_row) {
      session.SkipRows(next - row);
      row = next;
    }
    session.ReadRow(four_color ? cmyk.data() : pixels.data());
    if (four_color) {
      ConvertCmykRow({cmyk.data(), cmyk.data() + 1, cmyk.data() + 2, cmyk.data() + 3}, 4,
                     format.width, format.channels, pixels.data());
    }
    decode_ns += SteadyNowNs() - start;
    sink.Consume({pixels.data(), static_cast<ptrdiff_t>(row_bytes), row, 1});
  }
  return decode_ns;
}

}  // namespace endcap
