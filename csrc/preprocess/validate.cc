#include <algorithm>
#include <cmath>

#include "common/fail.h"
#include "endcap/preprocess.h"
#include "preprocess/param_limits.h"

namespace endcap {
namespace {

void CheckResize(const PreprocessParams& params) {
  if (params.antialias && params.interpolation == Interpolation::kNearest) {
    FailArgument("antialias is true with interpolation nearest: it needs a filter that can widen, ",
                 "give bilinear, bicubic or area");
  }
  if (params.fit == Fit::kCenterCrop &&
      std::max(params.height, params.width) > params.resize_shorter) {
    FailArgument(
        "size is ", params.height, ",", params.width,
        " with fit center_crop: neither side may be greater than resize_shorter, which is ",
        params.resize_shorter);
  }
}

void CheckNormalize(const PreprocessParams& params) {
  for (const double value : params.std) {
    if (!(std::abs(value) >= kMinDivisor && std::abs(value) <= kMaxNormalize)) {
      FailArgument("std holds ", value, ": pixels are divided by it, give numbers from ",
                   kMinDivisor, " to ", kMaxNormalize);
    }
  }
  for (const double value : params.mean) {
    if (!(std::abs(value) <= kMaxNormalize)) {
      FailArgument("mean holds ", value, ": give numbers up to ", kMaxNormalize);
    }
  }
  const double scale = params.ResolvedScale();
  if (!(std::abs(scale) >= kMinDivisor && std::abs(scale) <= kMaxNormalize)) {
    FailArgument("scale is ", scale, ": pixels are multiplied by it, give a number from ",
                 kMinDivisor, " to ", kMaxNormalize);
  }
}

void CheckSides(const PreprocessParams& params) {
  const auto usable = [](int side) { return side >= 1 && side <= kMaxOutputSide; };
  if (!usable(params.height) || !usable(params.width)) {
    FailArgument("size is ", params.height, ",", params.width, ": give each from 1 to ",
                 kMaxOutputSide);
  }
  if (!usable(params.resize_shorter)) {
    FailArgument("resize_shorter is ", params.resize_shorter, ": give 1 to ", kMaxOutputSide);
  }
}

void CheckDecoder(const PreprocessParams& params) {
  if (params.jpeg_decoder == JpegDecoder::kNvjpeg && params.decode == DecodeMode::kExact) {
    FailArgument("jpeg_decoder is nvjpeg with decode exact: its pixels are not libjpeg-turbo's, ",
                 "give decode fast");
  }
}

}  // namespace

void Validate(const PreprocessParams& params) {
  CheckSides(params);
  if (params.pad_value < 0 || params.pad_value > 255) {
    FailArgument("pad_value is ", params.pad_value, ": give 0 to 255");
  }
  if (params.dtype == DType::kInt32) {
    FailArgument("dtype is int32: give float32, float16, uint8 or int8");
  }
  CheckResize(params);
  CheckNormalize(params);
  CheckDecoder(params);
}

}  // namespace endcap
