#include "preprocess/rois_to_tensors.h"

#include <utility>
#include <vector>

#include "common/fail.h"
#include "common/select_implementation.h"
#include "preprocess/image_to_tensor.h"
#include "preprocess/pixel_source.h"
#include "preprocess/preprocess_output.h"
#include "preprocess/roi_bands.h"
#include "preprocess/roi_targets.h"
#include "preprocess/tensor_sink.h"

namespace endcap {
namespace {

// The good regions; a bad one gets a blank tensor.
std::vector<RoiTarget> GoodRois(const PreprocessParams& params, const PreprocessInput& input,
                                size_t first, const ImageHeader& header,
                                std::span<ItemStatus> statuses) {
  std::vector<RoiTarget> targets = MakeRoiTargets(params, input, first, header, statuses);
  for (size_t i = 0; i < statuses.size(); ++i) {
    if (!statuses[i].ok()) WriteBlank(input.outputs[first + i]);
  }
  return targets;
}

void CutPixels(Implementation implementation, const PreprocessParams& params,
               const ImageView& image, const std::vector<RoiTarget>& targets) {
  for (const auto& [rect, output] : targets) {
    TensorSink sink(implementation, params, rect.width, rect.height, OrientationTransform{},
                    output->image);
    PixelsToBands(implementation, image, rect, RowChannels(implementation, params), sink.resizer());
    sink.Finish();
  }
}

int64_t CutRows(Implementation implementation, const PreprocessParams& params,
                const ImageView& image, const ImageHeader& header, std::vector<RoiTarget> targets) {
  RoiBands bands(implementation, params, std::move(targets));
  const DecodeOptions options{RowChannels(implementation, params), 1, params.truncated};
  const int64_t decode_ns = DecodeToBands(image, header, options, bands);
  if (!bands.Complete()) Fail(ErrorCode::kInternal, "a region's tensor was not written");
  return decode_ns;
}

// A file that EXIF rotates: what the regions need of it is decoded and oriented first.
int64_t CutOriented(Implementation implementation, const PreprocessParams& params,
                    const ImageView& image, const ImageHeader& header,
                    const std::vector<RoiTarget>& targets) {
  const PixelRect window = BoundingRect(targets);
  int64_t decode_ns = 0;
  const DecodeOptions options{RowChannels(implementation, params), 1, params.truncated};
  const PixelBuffer oriented =
      DecodeWindow(image, header, options, header.orientation, window, decode_ns);
  const int channels = oriented.format.channels;
  const ptrdiff_t row_bytes = ptrdiff_t{window.width} * channels;
  for (const auto& [rect, output] : targets) {
    TensorSink sink(implementation, params, rect.width, rect.height, OrientationTransform{},
                    output->image);
    sink.Take({rect.width, rect.height, channels},
              oriented.pixels.data() + row_bytes * (rect.y - window.y) +
                  ptrdiff_t{rect.x - window.x} * channels,
              row_bytes);
  }
  return decode_ns;
}

// For regions whose tensors nobody wants: what they need of the file is read.
JpegDecoder CheckTargets(const PreprocessParams& params, const ImageView& image,
                         const ImageHeader& header, const std::vector<RoiTarget>& targets,
                         int64_t& decode_ns) {
  if (image.format != PixelFormat::kEncoded) return JpegDecoder::kAuto;
  decode_ns += CheckDecodes(image, header, {params.channels(), 1, params.truncated},
                            header.orientation, BoundingRect(targets));
  return JpegDecoder::kCpu;
}

}  // namespace

JpegDecoder RoisToTensors(const PreprocessParams& params, const PreprocessInput& input,
                          size_t first, std::span<ItemStatus> statuses, int64_t& decode_ns) {
  const Implementation implementation = SelectImplementation(Stage::kPreprocess);
  const ImageHeader header = ReadImageHeader(params, input.image);
  std::vector<RoiTarget> targets = GoodRois(params, input, first, header, statuses);
  if (targets.empty()) return JpegDecoder::kAuto;
  if (targets.front().output->image.data == nullptr) {
    return CheckTargets(params, input.image, header, targets, decode_ns);
  }
  if (input.image.format != PixelFormat::kEncoded) {
    CutPixels(implementation, params, input.image, targets);
    return JpegDecoder::kAuto;
  }
  if (header.orientation != 1) {
    decode_ns += CutOriented(implementation, params, input.image, header, targets);
  } else {
    decode_ns += CutRows(implementation, params, input.image, header, std::move(targets));
  }
  return JpegDecoder::kCpu;
}

}  // namespace endcap
