#include <algorithm>
#include <array>

#include "common/color_conversion.h"
#include "common/steady_clock.h"
#include "decode/file_formats.h"

namespace endcap {
namespace {

constexpr unsigned kOpaque = 255;
constexpr unsigned kWhite = 255;

uint8_t OnWhite(unsigned value, unsigned alpha) {
  const unsigned sum = value * alpha + kWhite * (kOpaque - alpha);
  return static_cast<uint8_t>((sum + kOpaque / 2) / kOpaque);
}

template <StoredPixels kStored>
void ConvertRow(const uint8_t* from, Alpha alpha, int width, int channels, uint8_t* to) {
  constexpr bool kIsGray = kStored == StoredPixels::kGray || kStored == StoredPixels::kGrayAlpha;
  constexpr bool kHasAlpha = kStored == StoredPixels::kGrayAlpha || kStored == StoredPixels::kRgba;
  const bool on_white = kHasAlpha && alpha == Alpha::kWhite;
  const int step = ChannelCount(kStored);
  for (int x = 0; x < width; ++x, from += step, to += channels) {
    std::array<uint8_t, 3> rgb = {from[0], from[kIsGray ? 0 : 1], from[kIsGray ? 0 : 2]};
    if (on_white && from[step - 1] != kOpaque) {
      for (uint8_t& value : rgb) value = OnWhite(value, from[step - 1]);
    }
    if (channels == 1) {
      *to = Luma(rgb[0], rgb[1], rgb[2]);
    } else {
      std::copy(rgb.begin(), rgb.end(), to);
    }
  }
}

}  // namespace

int ChannelCount(StoredPixels pixels) noexcept { return static_cast<int>(pixels) + 1; }

StoredRows::StoredRows(const BandFormat& format, Alpha alpha, BandSink& sink)
    : format_(format),
      alpha_(alpha),
      sink_(sink),
      end_row_(std::min(sink.EndRow(), format.height)),
      row_(static_cast<size_t>(format.width) * static_cast<size_t>(format.channels) +
           kRowSlackBytes) {}

void StoredRows::Put(int row, StoredPixels stored, const uint8_t* pixels) {
  constexpr std::array kConvert = {ConvertRow<StoredPixels::kGray>,
                                   ConvertRow<StoredPixels::kGrayAlpha>,
                                   ConvertRow<StoredPixels::kRgb>, ConvertRow<StoredPixels::kRgba>};
  const int64_t start = SteadyNowNs();
  kConvert[static_cast<size_t>(stored)](pixels, alpha_, format_.width, format_.channels,
                                        row_.data());
  const ptrdiff_t row_bytes = ptrdiff_t{format_.width} * format_.channels;
  sink_.Consume({row_.data(), row_bytes, row, 1});
  sink_ns_ += SteadyNowNs() - start;
}

}  // namespace endcap
