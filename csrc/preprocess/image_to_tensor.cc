#include "preprocess/image_to_tensor.h"

#include <algorithm>
#include <memory>

#include "common/path_select.h"
#include "preprocess/band_resizer.h"
#include "preprocess/pixel_source.h"
#include "preprocess/placement.h"
#include "preprocess/row_filter.h"
#include "preprocess/row_filter_simd.h"
#include "preprocess/row_writer.h"

namespace endcap {
namespace {

template <typename Opencv8, typename OpencvFloat8, typename Pillow8, typename Float>
std::unique_ptr<BandSink> MakeResizer(const PreprocessParams& params, const Placement& placement,
                                      RowWriter& writer) {
  switch (ArithmeticOf(params)) {
    case ResizeArithmetic::kOpencv8:
      return std::make_unique<BandResizer<Opencv8>>(params, placement, writer);
    case ResizeArithmetic::kOpencvFloat8:
      return std::make_unique<BandResizer<OpencvFloat8>>(params, placement, writer);
    case ResizeArithmetic::kPillow8:
      return std::make_unique<BandResizer<Pillow8>>(params, placement, writer);
    case ResizeArithmetic::kFloat:
      break;
  }
  return std::make_unique<BandResizer<Float>>(params, placement, writer);
}

std::unique_ptr<BandSink> MakeResizer(Path path, const PreprocessParams& params,
                                      const Placement& placement, RowWriter& writer) {
  if (path == Path::kSimd) {
    return MakeResizer<Opencv8Simd, OpencvFloat8Simd, Pillow8Simd, FloatSimd>(params, placement,
                                                                              writer);
  }
  return MakeResizer<Opencv8Scalar, OpencvFloat8Scalar, Pillow8Scalar, FloatScalar>(
      params, placement, writer);
}

// Vector code wants pixels of four bytes.
int RowChannels(Path path, const PreprocessParams& params) {
  return path == Path::kSimd && params.color != Color::kGray ? 4 : params.channels();
}

// Streams a file into the resizer; one that has to be turned is decoded whole first, because its
// rows are columns of the result.
int64_t FileToBands(const ImageView& image, const ImageHeader& header, const DecodeOptions& options,
                    int orientation, BandSink& sink) {
  if (orientation == 1) return DecodeToBands(image, header, options, sink);
  int64_t decode_ns = 0;
  const PixelBuffer upright = DecodeOriented(image, header, options, orientation, decode_ns);
  const BandFormat& format = upright.format;
  sink.Begin(format);
  sink.Consume(
      {upright.pixels.data(), ptrdiff_t{format.width} * format.channels, 0, format.height});
  return decode_ns;
}

}  // namespace

int64_t ImageToTensor(const PreprocessParams& params, const ImageView& image,
                      const PreprocessOutput& output) {
  const Path path = SelectPath(Stage::kPreprocess);
  const bool encoded = image.format == PixelFormat::kEncoded;
  ImageHeader header;
  if (encoded) {
    header = ReadHeader(image, params.limits);
  } else {
    CheckPixels(image, params.limits);
    header.width = image.width;
    header.height = image.height;
  }
  if (params.exif == ExifPolicy::kIgnore) header.orientation = 1;
  const int image_w = header.oriented_width();
  const int image_h = header.oriented_height();

  const Placement placement = Place(params, image_w, image_h);
  const int channels = RowChannels(path, params);
  const auto writer = MakeRowWriter(params, placement, output.image, channels);
  const auto resizer = MakeResizer(path, params, placement, *writer);
  int64_t decode_ns = 0;
  if (encoded) {
    const DecodeOptions options{channels, DecodeScale(params, placement, image_w, image_h)};
    decode_ns = FileToBands(image, header, options, header.orientation, *resizer);
  } else {
    PixelsToBands(image, channels, *resizer);
  }
  writer->WritePadding();

  if (output.geometry != nullptr) {
    const auto values =
        MakeGeometry(placement, image_w, image_h, header.orientation, output.source_index)
            .ToArray();
    std::copy(values.begin(), values.end(), output.geometry);
  }
  return decode_ns;
}

}  // namespace endcap
