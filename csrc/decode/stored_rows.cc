#include <algorithm>
#include <array>

#include "common/color_conversion.h"
#include "common/steady_clock.h"
#include "decode/file_formats.h"

namespace endcap {
namespace {

constexpr unsigned kOpaque = 255;
constexpr unsigned kWhite = 255;

struct Pixel {
  std::array<uint8_t, 3> rgb;
};

uint8_t OnWhite(unsigned value, unsigned alpha) {
  const unsigned sum = value * alpha + kWhite * (kOpaque - alpha);
  return static_cast<uint8_t>((sum + kOpaque / 2) / kOpaque);
}

template <StoredPixels kStored, Alpha kAlpha>
Pixel Load(const uint8_t* from) {
  constexpr bool kIsGray = kStored == StoredPixels::kGray || kStored == StoredPixels::kGrayAlpha;
  Pixel pixel{{from[0], from[kIsGray ? 0 : 1], from[kIsGray ? 0 : 2]}};
  constexpr bool kHasAlpha = kStored == StoredPixels::kGrayAlpha || kStored == StoredPixels::kRgba;
  if constexpr (kHasAlpha && kAlpha == Alpha::kWhite) {
    const unsigned alpha = from[kIsGray ? 1 : 3];
    if (alpha != kOpaque) {
      for (uint8_t& value : pixel.rgb) value = OnWhite(value, alpha);
    }
  }
  return pixel;
}

template <StoredPixels kStored, Alpha kAlpha>
void ConvertRow(const uint8_t* from, int width, int channels, uint8_t* to) {
  const int step = ChannelCount(kStored);
  for (int x = 0; x < width; ++x, from += step, to += channels) {
    const Pixel pixel = Load<kStored, kAlpha>(from);
    if (channels == 1) {
      *to = Luma(pixel.rgb[0], pixel.rgb[1], pixel.rgb[2]);
    } else {
      std::copy(pixel.rgb.begin(), pixel.rgb.end(), to);
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

template <StoredPixels kStored>
void StoredRows::Convert(const uint8_t* pixels) {
  if (alpha_ == Alpha::kWhite) {
    ConvertRow<kStored, Alpha::kWhite>(pixels, format_.width, format_.channels, row_.data());
  } else {
    ConvertRow<kStored, Alpha::kDrop>(pixels, format_.width, format_.channels, row_.data());
  }
}

void StoredRows::Put(int row, StoredPixels stored, const uint8_t* pixels) {
  const int64_t start = SteadyNowNs();
  switch (stored) {
    case StoredPixels::kGray:
      Convert<StoredPixels::kGray>(pixels);
      break;
    case StoredPixels::kGrayAlpha:
      Convert<StoredPixels::kGrayAlpha>(pixels);
      break;
    case StoredPixels::kRgb:
      Convert<StoredPixels::kRgb>(pixels);
      break;
    case StoredPixels::kRgba:
      Convert<StoredPixels::kRgba>(pixels);
      break;
  }
  const ptrdiff_t row_bytes = ptrdiff_t{format_.width} * format_.channels;
  sink_.Consume({row_.data(), row_bytes, row, 1});
  sink_ns_ += SteadyNowNs() - start;
}

}  // namespace endcap
