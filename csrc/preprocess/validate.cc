#include <algorithm>
#include <cmath>

#include "common/fail.h"
#include "endcap/preprocess.h"

namespace endcap {
namespace {

void CheckResize(const PreprocessParams& params) {
  const bool later = params.interpolation == Interpolation::kBicubic ||
                     params.interpolation == Interpolation::kArea;
  if (later) {
    Fail(ErrorCode::kUnsupported,
         "interpolation bicubic and area are not in this version: give nearest or bilinear");
  }
  if (params.antialias && params.interpolation == Interpolation::kNearest) {
    FailArgument("antialias is true with interpolation nearest: it needs a filter that can widen, ",
                 "give bilinear");
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
    if (value == 0.0) FailArgument("std holds 0: pixels are divided by it, give other numbers");
  }
  if (params.ResolvedScale() == 0.0) FailArgument("scale is 0: every pixel would be the same");
}

void CheckDecoder(const PreprocessParams& params) {
  if (params.jpeg_decoder == JpegDecoder::kNvjpeg && params.decode == DecodeMode::kExact) {
    FailArgument("jpeg_decoder is nvjpeg with decode exact: its pixels are not libjpeg-turbo's, ",
                 "give decode fast");
  }
  if (params.jpeg_decoder == JpegDecoder::kHybrid || params.jpeg_decoder == JpegDecoder::kNvjpeg) {
    Fail(ErrorCode::kUnsupported,
         "jpeg_decoder hybrid and nvjpeg need a CUDA build: give auto or cpu");
  }
}

}  // namespace

void Validate(const PreprocessParams& params) {
  if (params.height < 1 || params.width < 1) {
    FailArgument("size is ", params.height, ",", params.width, ": both must be at least 1");
  }
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
