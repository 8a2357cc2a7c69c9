#include "preprocess/pixel_source.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "common/fail.h"
#include "common/pixel_arithmetic.h"
#include "endcap/decode.h"

namespace endcap {
namespace {

constexpr int kBandRows = 16;

int StoredChannels(PixelFormat format) { return format == PixelFormat::kGray ? 1 : 3; }

bool NeedsConversion(PixelFormat format, int channels) {
  return format == PixelFormat::kBgr || StoredChannels(format) != channels;
}

void ConvertRow(PixelFormat format, const uint8_t* from, int width, int channels, uint8_t* to) {
  const int stored = StoredChannels(format);
  const int red = format == PixelFormat::kBgr ? 2 : 0;
  for (int x = 0; x < width; ++x, from += stored, to += channels) {
    if (stored == 1) {
      std::memset(to, *from, static_cast<size_t>(channels));
    } else if (channels == 1) {
      *to = Luma(from[red], from[1], from[2 - red]);
    } else {
      to[0] = from[red];
      to[1] = from[1];
      to[2] = from[2 - red];
    }
  }
}

}  // namespace

void CheckPixels(const ImageView& image, const DecodeLimits& limits) {
  if (image.device != Device::kCpu) {
    Fail(ErrorCode::kUnsupported, "the pixels are in GPU memory; this build reads CPU memory only");
  }
  if (image.format == PixelFormat::kNv12 || image.format == PixelFormat::kPlanarYuv) {
    Fail(ErrorCode::kUnsupported,
         "the pixels are YUV; this build takes encoded bytes, RGB, BGR and gray");
  }
  if (image.planes[0].data == nullptr || image.width < 1 || image.height < 1) {
    FailArgument("the image has ", image.width, "x", image.height,
                 " pixels; both sides must be at least 1");
  }
  CheckSizeLimits(image.width, image.height, limits);
}

void PixelsToBands(const ImageView& image, int channels, BandSink& sink) {
  const auto& plane = image.planes[0];
  sink.Begin({image.width, image.height, channels});
  if (!NeedsConversion(image.format, channels)) {
    sink.Consume({plane.data, plane.row_stride_bytes, 0, image.height});
    return;
  }
  const size_t row_bytes = static_cast<size_t>(image.width) * static_cast<size_t>(channels);
  std::vector<uint8_t> band(row_bytes * kBandRows + kRowSlackBytes);
  for (int first = 0; first < image.height; first += kBandRows) {
    const int rows = std::min(kBandRows, image.height - first);
    for (int i = 0; i < rows; ++i) {
      if (sink.NextRow(first + i) != first + i) continue;
      ConvertRow(image.format, plane.data + plane.row_stride_bytes * (first + i), image.width,
                 channels, band.data() + row_bytes * static_cast<size_t>(i));
    }
    sink.Consume({band.data(), static_cast<ptrdiff_t>(row_bytes), first, rows});
  }
}

}  // namespace endcap
