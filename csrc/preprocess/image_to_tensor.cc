#include "preprocess/image_to_tensor.h"

#include "common/fail.h"
#include "common/select_implementation.h"
#include "preprocess/pixels/image_source.h"
#include "preprocess/preprocess_output.h"

namespace endcap {
namespace {

// Decodes a whole file and applies its orientation, then passes it on in one band.
DecodeReport OrientedFileToTensor(const ImageView& image, const ImageHeader& header,
                                  const DecodeOptions& options, TensorSink& sink) {
  DecodeReport report;
  const PixelBuffer oriented = DecodeOriented(image, header, options, header.orientation, report);
  const BandFormat& format = oriented.format;
  sink.resizer().Begin(format);
  sink.resizer().Consume(
      {oriented.pixels.data(), ptrdiff_t{format.width} * format.channels, 0, format.height});
  return report;
}

}  // namespace

TensorSink::TensorSink(Implementation implementation, const PreprocessParams& params, int image_w,
                       int image_h, const OrientationTransform& transform, const TensorView& tensor)
    : placement_(Place(params, image_w, image_h)),
      writer_(MakeRowWriter(params, placement_, tensor, RowChannels(implementation, params))),
      resizer_(MakeResizer(implementation, params, placement_, transform, *writer_)) {}

void TensorSink::Finish() {
  if (!resizer_->Complete()) Fail(ErrorCode::kInternal, "a row of the tensor was not written");
  writer_->WritePadding();
}

DecodeReport ImageToTensor(const PreprocessParams& params, const ImageView& image,
                           const PreprocessOutput& output, Crew* crew) {
  const Implementation implementation = SelectImplementation(Stage::kPreprocess);
  const ImageHeader header = ReadImageHeader(params, image);
  const int image_w = header.oriented_width();
  const int image_h = header.oriented_height();
  const Placement placement = Place(params, image_w, image_h);
  const int eighths = DecodedEighths(params, placement, image_w, image_h);
  const bool is_file = image.format == PixelFormat::kEncoded;
  DecodeReport report;
  if (output.image.data != nullptr) {
    // Where rows cannot be streamed in their orientation, the image is decoded and oriented first.
    const bool decode_whole = header.orientation != 1 && !StreamsOriented(implementation, params);
    const OrientationTransform transform =
        decode_whole ? OrientationTransform{} : GetOrientationTransform(header.orientation);
    TensorSink sink(implementation, params, image_w, image_h, transform, output.image);
    const int channels = RowChannels(implementation, params);
    if (is_file) {
      const DecodeOptions options = params.decode_options(channels, eighths);
      report = decode_whole ? OrientedFileToTensor(image, header, options, sink)
                            : DecodeToBands(image, header, options, sink.resizer(), crew);
    } else {
      PixelsToBands(implementation, image, {0, 0, image_w, image_h}, channels, sink.resizer());
    }
    sink.Finish();
  } else if (is_file) {  // for its errors alone
    report = CheckDecodes(image, header, params.decode_options(params.channels(), eighths));
  }
  WriteGeometry(output,
                MakeGeometry(placement, {0, 0, image_w, image_h}, header, output.source_index));
  return report;
}

}  // namespace endcap
