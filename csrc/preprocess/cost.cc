#include "endcap/cost.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "common/select_implementation.h"
#include "decode/file_formats.h"
#include "endcap/decode.h"
#include "endcap/error.h"
#include "preprocess/cost_coefficients.h"
#include "preprocess/pixels/image_source.h"
#include "preprocess/placement.h"
#include "preprocess/resize/axis_taps.h"
#include "preprocess/resize/resizer.h"

namespace endcap {
namespace {

using namespace std::string_view_literals;

constexpr std::array<std::string_view, kCostTermCount> kTermNames = {
    "image"sv,
    "sequential_bytes"sv,
    "sequential_blocks"sv,
    "progressive_bytes"sv,
    "scanned_blocks"sv,
    "transformed_blocks"sv,
    "png_bytes"sv,
    "png_pixels"sv,
    "webp_bytes"sv,
    "webp_pixels"sv,
    "gif_pixels"sv,
    "other_pixels"sv,
    "converted_pixels"sv,
    "two_taps"sv,
    "pillow_taps"sv,
    "float_taps"sv,
    "turned_pixels"sv,
    "oriented_pixels"sv,
    "tensor_elements"sv,
    "tensor_bytes"sv,
};

double& At(CostTerms& terms, CostTerm term) { return terms[static_cast<size_t>(term)]; }

// The resize of one image or region, in pixels of the decoded image.
struct ResizeWork {
  double rows = 0;  // of the source that are read
  double taps = 0;
};

// Taps of one output sample along an axis that shrinks by `ratio`.
double CountTaps(const PreprocessParams& params, double ratio) {
  if (params.interpolation == Interpolation::kNearest) return 1;
  if (params.interpolation == Interpolation::kArea) return std::max(ratio, 1.0) + 1;
  const double support = params.interpolation == Interpolation::kBicubic ? 4 : 2;
  return params.antialias ? support * std::max(ratio, 1.0) : support;
}

ResizeWork MeasureResize(const PreprocessParams& params, const Placement& place, double source_w,
                         double source_h) {
  const double taps_x = CountTaps(params, source_w / place.resized_w);
  const double taps_y = CountTaps(params, source_h / place.resized_h);
  const double visible_rows = source_h * place.visible_h / place.resized_h;
  ResizeWork work;
  work.rows = std::min(visible_rows, taps_y * place.visible_h);
  work.taps = place.visible_w * (work.rows * taps_x + place.visible_h * taps_y);
  return work;
}

CostTerm TapsTerm(const PreprocessParams& params) {
  const ResizeArithmetic arithmetic = SelectArithmetic(params);
  if (arithmetic == ResizeArithmetic::kOpencv8) return CostTerm::kTwoTaps;
  if (arithmetic == ResizeArithmetic::kPillow8) return CostTerm::kPillowTaps;
  return CostTerm::kFloatTaps;
}

// needed: the share of the image's rows that the resize reads.
void AddDecoding(const ImageView& image, const ImageHeader& header, int eighths, double needed,
                 CostTerms& terms) {
  const std::span file(image.planes[0].data, image.size_bytes);
  const double pixels = static_cast<double>(header.width) * header.height;
  switch (header.format) {
    case FileFormat::kJpeg: {
      const auto blocks = static_cast<double>(CountJpegBlocks(file));
      const bool whole = header.progressive || header.scan_count > 1;
      At(terms, whole ? CostTerm::kProgressiveBytes : CostTerm::kSequentialBytes) =
          static_cast<double>(file.size());
      At(terms, whole ? CostTerm::kScannedBlocks : CostTerm::kSequentialBlocks) =
          blocks * header.scan_count;
      At(terms, CostTerm::kTransformedBlocks) = blocks * needed * (eighths * eighths) / 64.0;
      return;
    }
    case FileFormat::kPng:
      At(terms, CostTerm::kPngBytes) = static_cast<double>(CountPngBytes(file));
      At(terms, CostTerm::kPngPixels) = pixels;
      return;
    case FileFormat::kWebp:
      At(terms, CostTerm::kWebpBytes) = static_cast<double>(CountWebpBytes(file));
      At(terms, CostTerm::kWebpPixels) = pixels;
      return;
    case FileFormat::kGif:
      At(terms, CostTerm::kGifPixels) = pixels;
      return;
    case FileFormat::kBmp:
    case FileFormat::kY4m:
      At(terms, CostTerm::kOtherPixels) = pixels;
      return;
  }
}

void AddTerms(const PreprocessParams& params, ImageView image, int64_t regions, CostTerms& terms) {
  std::optional<std::vector<uint8_t>> file;
  if (params.base64 == Base64::kAccept) file = DecodeBase64(image, params.limits);
  if (file) image = ImageView::Encoded(file->data(), file->size());
  const ImageHeader header = ReadImageHeader(params, image);
  const int image_w = header.oriented_width();
  const int image_h = header.oriented_height();
  if (params.slices()) regions = std::ssize(ComputeTiles(params, image_w, image_h));
  const Placement place = Place(params, image_w, image_h);
  const bool scales =
      image.format == PixelFormat::kEncoded && header.format == FileFormat::kJpeg && regions == 0;
  const int eighths = scales ? DecodedEighths(params, place, image_w, image_h) : 8;
  const double source_w = ScaledSize(image_w, eighths);
  const double source_h = ScaledSize(image_h, eighths);
  const ResizeWork resize = MeasureResize(params, place, source_w, source_h);
  const bool streams =
      regions == 0 && StreamsOriented(SelectImplementation(Stage::kPreprocess), params);
  const bool decoded_whole = header.orientation != 1 && !streams;
  const bool turned = header.orientation >= 5 && streams;
  const bool every_row = decoded_whole || turned || regions > 0;
  const double needed = every_row ? 1.0 : resize.rows / source_h;
  if (image.format == PixelFormat::kEncoded) AddDecoding(image, header, eighths, needed, terms);
  At(terms, CostTerm::kConvertedPixels) = source_w * source_h * needed;
  if (turned) At(terms, CostTerm::kTurnedPixels) = source_w * source_h;
  if (decoded_whole) At(terms, CostTerm::kOrientedPixels) = source_w * source_h;
  const double tensors = regions > 0 ? static_cast<double>(regions) : 1.0;
  // The sizes of regions are not known here: each counts as one that is neither shrunk nor
  // enlarged.
  const double pixels = tensors * params.width * params.height;
  At(terms, TapsTerm(params)) = regions > 0 ? pixels * 4.0 : resize.taps;
  const double elements = pixels * params.channels();
  At(terms, CostTerm::kTensorElements) = elements;
  At(terms, CostTerm::kTensorBytes) = elements * static_cast<double>(GetElementSize(params.dtype));
}

}  // namespace

std::string_view CostTermName(CostTerm term) noexcept {
  return kTermNames[static_cast<size_t>(term)];
}

CostTerms GetCostTerms(const PreprocessParams& params, const ImageView& image,
                       int64_t regions) noexcept {
  CostTerms terms{};
  try {
    AddTerms(params, image, regions, terms);
  } catch (const std::exception&) {
    terms = {};
  }
  At(terms, CostTerm::kImage) = 1;
  return terms;
}

double PredictCostMs(const PreprocessParams& params, const ImageView& image,
                     int64_t regions) noexcept {
  const CostTerms terms = GetCostTerms(params, image, regions);
  double nanoseconds = 0;
  for (size_t i = 0; i < kCostTermCount; ++i) nanoseconds += terms[i] * kCostCoefficientsNs[i];
  return nanoseconds * 1e-6;
}

}  // namespace endcap
