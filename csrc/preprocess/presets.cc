#include <array>

#include "common/param_reader.h"
#include "endcap/preprocess.h"

namespace endcap {
namespace {

constexpr std::array<std::string_view, 6> kNames = {"ultralytics", "torchvision", "inception",
                                                    "vgg",         "rtdetr",      "ssd"};

// ultralytics: LetterBox(auto=False) and /255. All are the table's defaults.
PreprocessParams Ultralytics() { return {}; }

// torchvision's ImageClassification: Resize(256), CenterCrop(224) on Pillow images, ImageNet
// statistics. Pillow does not turn images by EXIF.
PreprocessParams Torchvision() {
  PreprocessParams params;
  params.height = params.width = 224;
  params.fit = Fit::kCenterCrop;
  params.resize_shorter = 256;
  params.antialias = true;
  params.mean = {0.485, 0.456, 0.406};
  params.std = {0.229, 0.224, 0.225};
  params.exif = ExifPolicy::kIgnore;
  return params;
}

// TensorFlow's Inception input: tf.image.resize to 299x299 in float, then x / 127.5 - 1.
PreprocessParams Inception() {
  PreprocessParams params;
  params.height = params.width = 299;
  params.fit = Fit::kStretch;
  params.quantize = Quantize::kNone;
  params.layout = Layout::kNhwc;
  params.scale = 1.0 / 127.5;
  params.mean = {1.0, 1.0, 1.0};
  params.exif = ExifPolicy::kIgnore;
  return params;
}

// VGG as Caffe trained it: BGR, mean pixel taken away, no scale; OpenCV's resize and crop.
PreprocessParams Vgg() {
  PreprocessParams params;
  params.height = params.width = 224;
  params.fit = Fit::kCenterCrop;
  params.resize_shorter = 256;
  params.color = Color::kBgr;
  params.scale = 1.0;
  params.mean = {103.939, 116.779, 123.68};
  return params;
}

// RT-DETR: Resize([640, 640]) on Pillow images, then /255.
PreprocessParams Rtdetr() {
  PreprocessParams params;
  params.fit = Fit::kStretch;
  params.antialias = true;
  params.exif = ExifPolicy::kIgnore;
  return params;
}

// torchvision's ssd300_vgg16: normalised by the mean pixel, bilinear in float to 300x300.
PreprocessParams Ssd() {
  PreprocessParams params;
  params.height = params.width = 300;
  params.fit = Fit::kStretch;
  params.quantize = Quantize::kNone;
  params.mean = {0.48235, 0.45882, 0.40784};
  params.std = {1.0 / 255.0, 1.0 / 255.0, 1.0 / 255.0};
  params.exif = ExifPolicy::kIgnore;
  return params;
}

}  // namespace

std::span<const std::string_view> PresetNames() noexcept { return kNames; }

PreprocessParams Preset(std::string_view name) {
  constexpr std::array kMakers = {Ultralytics, Torchvision, Inception, Vgg, Rtdetr, Ssd};
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return kMakers[i]();
  }
  FailArgument("preset is '", name, "': give one of ", JoinNames(kNames));
}

}  // namespace endcap
