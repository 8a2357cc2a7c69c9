#include "preprocess/image_to_tensor.h"

#include <memory>

#include "common/fail.h"
#include "common/path_select.h"
#include "preprocess/band_resizer.h"
#include "preprocess/pixel_source.h"
#include "preprocess/placement.h"
#include "preprocess/preprocess_output.h"
#include "preprocess/row_filter.h"
#include "preprocess/row_filter_simd.h"
#include "preprocess/row_writer.h"
#include "preprocess/turned_resizer.h"

namespace endcap {
namespace {

template <typename Opencv8, typename OpencvFloat8, typename Pillow8, typename Float>
std::unique_ptr<Resizer> MakeResizer(const PreprocessParams& params, const Placement& placement,
                                     const Walk& walk, RowWriter& writer) {
  switch (ArithmeticOf(params)) {
    case ResizeArithmetic::kOpencv8:
      return std::make_unique<BandResizer<Opencv8>>(params, placement, walk, writer);
    case ResizeArithmetic::kOpencvFloat8:
      return std::make_unique<BandResizer<OpencvFloat8>>(params, placement, walk, writer);
    case ResizeArithmetic::kPillow8:
      return std::make_unique<BandResizer<Pillow8>>(params, placement, walk, writer);
    case ResizeArithmetic::kFloat:
      break;
  }
  return std::make_unique<BandResizer<Float>>(params, placement, walk, writer);
}

std::unique_ptr<Resizer> MakeResizer(Path path, const PreprocessParams& params,
                                     const Placement& placement, const Walk& walk,
                                     RowWriter& writer) {
  if (path != Path::kSimd) {
    return MakeResizer<Opencv8Scalar, OpencvFloat8Scalar, Pillow8Scalar, FloatScalar>(
        params, placement, walk, writer);
  }
  if (!walk.swap_axes) {
    return MakeResizer<Opencv8Simd, OpencvFloat8Simd, Pillow8Simd, FloatSimd>(params, placement,
                                                                              walk, writer);
  }
  if (ArithmeticOf(params) == ResizeArithmetic::kOpencv8) {
    return std::make_unique<TurnedResizer<Opencv8Simd>>(params, placement, walk, writer);
  }
  return std::make_unique<TurnedResizer<Pillow8Simd>>(params, placement, walk, writer);
}

// Whether a file that EXIF turns is resized as its rows arrive. Else it is decoded whole and turned
// first, which is the definition. Sums of whole numbers do not depend on the taps' order.
bool StreamsTurned(Path path, const PreprocessParams& params) {
  const ResizeArithmetic arithmetic = ArithmeticOf(params);
  return path == Path::kSimd && params.color != Color::kGray &&
         (arithmetic == ResizeArithmetic::kOpencv8 || arithmetic == ResizeArithmetic::kPillow8);
}

// Vector code wants pixels of four bytes.
int RowChannels(Path path, const PreprocessParams& params) {
  return path == Path::kSimd && params.color != Color::kGray ? 4 : params.channels();
}

// Decodes a file whole and turns it upright, then hands it over in one band.
int64_t TurnedFileToBand(const ImageView& image, const ImageHeader& header,
                         const DecodeOptions& options, BandSink& sink) {
  int64_t decode_ns = 0;
  const PixelBuffer upright = DecodeOriented(image, header, options, header.orientation, decode_ns);
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
  const bool whole = header.orientation != 1 && !StreamsTurned(path, params);
  const Walk walk = whole ? Walk{} : WalkOf(header.orientation);
  const auto resizer = MakeResizer(path, params, placement, walk, *writer);
  int64_t decode_ns = 0;
  if (encoded) {
    const DecodeOptions options{channels, DecodeScale(params, placement, image_w, image_h)};
    decode_ns = whole ? TurnedFileToBand(image, header, options, *resizer)
                      : DecodeToBands(image, header, options, *resizer);
  } else {
    PixelsToBands(image, channels, *resizer);
  }
  if (!resizer->Complete()) Fail(ErrorCode::kInternal, "a row of the tensor was not written");
  writer->WritePadding();

  WriteGeometry(output,
                MakeGeometry(placement, image_w, image_h, header.orientation, output.source_index));
  return decode_ns;
}

}  // namespace endcap
