#include "preprocess/pixels/image_source.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/color_conversion.h"
#include "common/fail.h"
#include "endcap/decode.h"
#include "preprocess/pixels/yuv_planes.h"
#include "preprocess/pixels/yuv_rows.h"

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

// The same image with its luma alone, which is gray.
ImageView SelectLuma(const ImageView& image) {
  return ImageView::Interleaved(PixelFormat::kGray, image.planes[0].data, image.width, image.height,
                                image.planes[0].row_stride_bytes);
}

void InterleavedToBands(const ImageView& image, const PixelRect& part, int channels,
                        BandSink& sink) {
  const ptrdiff_t stride = image.planes[0].row_stride_bytes;
  const uint8_t* first_pixel =
      image.planes[0].data + stride * part.y + ptrdiff_t{StoredChannels(image.format)} * part.x;
  if (!NeedsConversion(image.format, channels)) {
    sink.Consume({first_pixel, stride, 0, part.height});
    return;
  }
  const size_t row_bytes = static_cast<size_t>(part.width) * static_cast<size_t>(channels);
  std::vector<uint8_t> band(row_bytes * kBandRows + kRowSlackBytes);
  for (int first = 0; first < part.height; first += kBandRows) {
    const int rows = std::min(kBandRows, part.height - first);
    for (int i = 0; i < rows; ++i) {
      if (sink.NextRow(first + i) != first + i) continue;
      ConvertRow(image.format, first_pixel + stride * (first + i), part.width, channels,
                 band.data() + row_bytes * static_cast<size_t>(i));
    }
    sink.Consume({band.data(), static_cast<ptrdiff_t>(row_bytes), first, rows});
  }
}

void YuvToBands(Implementation implementation, const ImageView& image, const PixelRect& part,
                int channels, BandSink& sink) {
  YuvRows rows(implementation, image, channels, {part.x, part.right()});
  const ptrdiff_t row_bytes = ptrdiff_t{part.width} * channels;
  for (int y = sink.NextRow(0); y < part.height; y = sink.NextRow(y + 1)) {
    sink.Consume({rows.Make(part.y + y), row_bytes, y, 1});
  }
}

}  // namespace

void CheckPixels(const ImageView& image, const DecodeLimits& limits) {
  if (image.planes[0].data == nullptr || image.width < 1 || image.height < 1) {
    FailArgument("the image has ", image.width, "x", image.height,
                 " pixels; both sides must be at least 1");
  }
  CheckSizeLimits(image.width, image.height, limits);
  if (IsYuv(image.format)) CheckYuv(image);
}

void PixelsToBands(Implementation implementation, const ImageView& image, const PixelRect& part,
                   int channels, BandSink& sink) {
  sink.Begin({part.width, part.height, channels});
  if (!IsYuv(image.format)) {
    InterleavedToBands(image, part, channels, sink);
  } else if (channels == 1 && image.range == YuvRange::kFull) {
    InterleavedToBands(SelectLuma(image), part, channels, sink);
  } else {
    YuvToBands(implementation, image, part, channels, sink);
  }
}

ImageHeader ReadImageHeader(const PreprocessParams& params, const ImageView& image) {
  ImageHeader header;
  if (image.format == PixelFormat::kEncoded) {
    header = ReadHeader(image, params.limits, params.damaged);
  } else {
    if (image.device != Device::kCpu) {
      Fail(ErrorCode::kUnsupported,
           "the pixels are in GPU memory; this build reads CPU memory only");
    }
    CheckPixels(image, params.limits);
    header.width = image.width;
    header.height = image.height;
  }
  if (params.exif == ExifPolicy::kIgnore) header.orientation = 1;
  return header;
}

}  // namespace endcap
