#include "preprocess/placement.h"

#include <algorithm>
#include <cmath>

#include "endcap/decode.h"

namespace endcap {
namespace {

// 6/8 and 7/8 take as long as the whole size or longer: halved chroma then has blocks of 12 and 14
// samples a side, three times the work of 8.
constexpr int kMaxUsefulEighths = 5;

// std::nearbyint rounds half to even, as Python's round does.
int RoundHalfEven(double value) { return static_cast<int>(std::nearbyint(value)); }

Placement PlaceLetterbox(const PreprocessParams& params, int image_w, int image_h) {
  double ratio = std::min(static_cast<double>(params.height) / image_h,
                          static_cast<double>(params.width) / image_w);
  if (!params.upscale) ratio = std::min(ratio, 1.0);
  Placement place;
  place.resized_w = std::clamp(RoundHalfEven(image_w * ratio), 1, params.width);
  place.resized_h = std::clamp(RoundHalfEven(image_h * ratio), 1, params.height);
  place.visible_w = place.resized_w;
  place.visible_h = place.resized_h;
  if (params.pad_align == PadAlign::kCenter) {
    // An odd pixel of padding goes to the right and to the bottom.
    place.out_x = (params.width - place.resized_w) / 2;
    place.out_y = (params.height - place.resized_h) / 2;
  }
  return place;
}

Placement PlaceCenterCrop(const PreprocessParams& params, int image_w, int image_h) {
  const int64_t shorter = params.resize_shorter;
  Placement place;
  if (image_w <= image_h) {
    place.resized_w = params.resize_shorter;
    place.resized_h = static_cast<int>(shorter * image_h / image_w);
  } else {
    place.resized_h = params.resize_shorter;
    place.resized_w = static_cast<int>(shorter * image_w / image_h);
  }
  place.crop_x = RoundHalfEven((place.resized_w - params.width) / 2.0);
  place.crop_y = RoundHalfEven((place.resized_h - params.height) / 2.0);
  place.visible_w = params.width;
  place.visible_h = params.height;
  return place;
}

}  // namespace

Placement Place(const PreprocessParams& params, int image_w, int image_h) {
  if (params.fit == Fit::kLetterbox) return PlaceLetterbox(params, image_w, image_h);
  if (params.fit == Fit::kCenterCrop) return PlaceCenterCrop(params, image_w, image_h);
  Placement place;
  place.resized_w = place.visible_w = params.width;
  place.resized_h = place.visible_h = params.height;
  return place;
}

Geometry MakeGeometry(const Placement& placement, const PixelRect& rect, const ImageHeader& header,
                      int source_index) noexcept {
  Geometry geometry;
  geometry.scale_x = static_cast<float>(static_cast<double>(placement.resized_w) / rect.width);
  geometry.scale_y = static_cast<float>(static_cast<double>(placement.resized_h) / rect.height);
  // By the float32 scale, which is what readers divide by.
  geometry.pad_x = static_cast<float>(placement.out_x - placement.crop_x -
                                      static_cast<double>(geometry.scale_x) * rect.x);
  geometry.pad_y = static_cast<float>(placement.out_y - placement.crop_y -
                                      static_cast<double>(geometry.scale_y) * rect.y);
  geometry.image_w = static_cast<float>(header.oriented_width());
  geometry.image_h = static_cast<float>(header.oriented_height());
  geometry.orientation = static_cast<float>(header.orientation);
  geometry.source_index = static_cast<float>(source_index);
  return geometry;
}

int DecodedEighths(const PreprocessParams& params, const Placement& placement, int image_w,
                   int image_h) noexcept {
  constexpr int kWholeSize = 8;
  if (params.decode == DecodeMode::kExact) return kWholeSize;
  for (int eighths = 1; eighths <= kMaxUsefulEighths; ++eighths) {
    const bool wide_enough = ScaledSize(image_w, eighths) >= placement.resized_w;
    const bool high_enough = ScaledSize(image_h, eighths) >= placement.resized_h;
    if (wide_enough && high_enough) return eighths;
  }
  return kWholeSize;
}

}  // namespace endcap
