// Regions of interest of an image: the implementations against each other, and a region against an
// image that holds its pixels alone.

#include <cmath>

#include "agreement.h"
#include "preprocess_params.h"

namespace endcap::fuzz {
namespace {

std::vector<Roi> PickRois(FuzzInput& input) {
  std::vector<Roi> rois(input.Size(4));
  for (Roi& roi : rois) {
    const auto edge = [&] {
      return input.Happens(16) ? input.AnyFloat() : static_cast<float>(input.Number(-8.0, 88.0));
    };
    roi = {edge(), edge(), edge(), edge()};
    if (roi.x1 > roi.x2 && !input.Happens(16)) std::swap(roi.x1, roi.x2);
    if (roi.y1 > roi.y2 && !input.Happens(16)) std::swap(roi.y1, roi.y2);
  }
  return rois;
}

// The image's status, then each region's and what was written for it.
void RunRois(const PreprocessParams& params, DeviceId device, const ImageView& image,
             const std::vector<Roi>& rois, Outcome& outcome) {
  Preprocessor preprocessor(params, device, 1);
  std::vector<ItemMemory> memory(rois.size());
  std::vector<PreprocessOutput> outputs;
  for (size_t i = 0; i < rois.size(); ++i) {
    outputs.push_back(memory[i].Make(params, static_cast<int>(i), device));
  }
  const PreprocessInput images{image, rois, outputs};
  const auto items = preprocessor.Run(std::span(&images, 1));
  FailIfDamaged(items[0].status);
  outcome.Add(items[0].status);
  for (size_t i = 0; i < rois.size(); ++i) {
    memory[i].AddTo(outcome, items[0].rois[i]);
  }
}

// Whole pixels that a region covers, clipped; empty for one that is refused.
PixelRect Covered(const Roi& roi, int width, int height) {
  for (const float edge : {roi.x1, roi.y1, roi.x2, roi.y2}) {
    if (!std::isfinite(edge)) return {};
  }
  const auto inside = [](float edge, int side) {
    return std::clamp(double{edge}, 0.0, static_cast<double>(side));
  };
  PixelRect rect;
  rect.x = static_cast<int>(std::floor(inside(roi.x1, width)));
  rect.y = static_cast<int>(std::floor(inside(roi.y1, height)));
  rect.width = static_cast<int>(std::ceil(inside(roi.x2, width))) - rect.x;
  rect.height = static_cast<int>(std::ceil(inside(roi.y2, height))) - rect.y;
  return roi.x1 < roi.x2 && roi.y1 < roi.y2 && rect.width > 0 && rect.height > 0 ? rect
                                                                                 : PixelRect{};
}

// The tensor of the last region is the one of an image of its pixels.
void CompareWithCrop(const PreprocessParams& params, const ImageView& image, const Roi& roi) {
  PixelBuffer oriented;
  try {
    oriented = Decode(image, params.limits, {}, params.exif == ExifPolicy::kApply);
  } catch (const Error&) {  // damage below the region may go unseen there
    return;
  }
  const PixelRect rect = Covered(roi, oriented.format.width, oriented.format.height);
  if (rect.width < 1) return;
  ItemMemory cut;
  ItemMemory whole;
  const std::array cut_outputs = {cut.Make(params, 0)};
  const PreprocessInput images{image, std::span(&roi, 1), cut_outputs};
  Preprocessor preprocessor(params, 1);
  const auto items = preprocessor.Run(std::span(&images, 1));
  Require(items[0].status.ok(), "a region of a good image: ", items[0].status.message);
  const ptrdiff_t stride = ptrdiff_t{3} * oriented.format.width;
  const ImageView crop = ImageView::Interleaved(
      PixelFormat::kRgb, oriented.pixels.data() + stride * rect.y + ptrdiff_t{3} * rect.x,
      rect.width, rect.height, stride);
  const std::array whole_outputs = {whole.Make(params, 0)};
  const auto expected = preprocessor.Run(std::span(&crop, 1), whole_outputs);
  Require(expected[0].status.ok(), "a crop of a good image: ", expected[0].status.message);
  Require(cut.tensor == whole.tensor, "the region's tensor is not that of its pixels");
}

}  // namespace
}  // namespace endcap::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace endcap;
  using namespace endcap::fuzz;
  FuzzInput input(data, size);
  const std::string_view target = PickSimdTarget(input);
  const PreprocessParams params = PickPreprocessParams(input, 24);
  std::vector<Roi> rois = PickRois(input);
  const std::vector<uint8_t> file = input.Rest();
  const ImageView image = ImageView::Encoded(file.data(), file.size());
  if (rois.empty()) {
    PreprocessParams sliced = params;
    sliced.tile_height = params.height;
    sliced.tile_width = params.width;
    try {
      rois = ReadTiles(sliced, image);
    } catch (const Error&) {  // too many; then no region
    }
  }
  const Outcome outcome = RequireEqualOnDevices(
      target, "regions", image,
      [&](DeviceId device, Outcome& result) { RunRois(params, device, image, rois, result); });
  // Gray is the file's luma, which RGB pixels do not have.
  if (!outcome.ok() || rois.empty() || params.color == Color::kGray) return 0;
  CompareWithCrop(params, image, rois.back());
  return 0;
}
