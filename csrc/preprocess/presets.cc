#include <array>

#include "common/param_reader.h"
#include "endcap/preprocess.h"

namespace endcap {
namespace {

constexpr std::array<std::string_view, 7> kNames = {
    "ultralytics", "torchvision", "inception", "vgg", "rtdetr", "rfdetr", "ssd"};

// Alpha is dropped in all, as by OpenCV, by Pillow's convert("RGB") and by TensorFlow with three
// channels.

// A size to which images are stretched, in float; EXIF is ignored.
PreprocessParams StretchedInFloat(int side) {
  PreprocessParams params;
  params.height = params.width = side;
  params.fit = Fit::kStretch;
  params.quantize = Quantize::kNone;
  params.exif = ExifPolicy::kIgnore;
  return params;
}

// ultralytics: LetterBox(auto=False) on what OpenCV reads, then /255. All fields have their
// default. EXIF is applied, as by OpenCV. CMYK is Pillow's, up to 3 steps from OpenCV's.
PreprocessParams Ultralytics() { return {}; }

// torchvision's ImageClassification: Resize(256), CenterCrop(224) on Pillow images, ImageNet
// statistics. EXIF is ignored and CMYK converted as by Pillow's open and convert("RGB").
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

// TensorFlow 2: tf.image.resize to 299x299 (bilinear, float, no antialias, no crop), then
// x / 127.5 - 1. The file as by tf.io.decode_jpeg with dct_method INTEGER_ACCURATE; its default is
// a faster and less exact decoding. EXIF is ignored, as by TensorFlow. CMYK is Pillow's, a step
// from TensorFlow's.
PreprocessParams Inception() {
  PreprocessParams params = StretchedInFloat(299);
  params.layout = Layout::kNhwc;
  params.scale = 1.0 / 127.5;
  params.mean = {1.0, 1.0, 1.0};
  return params;
}

// VGG as trained with Caffe: the short side to 256 and the middle 224x224, by OpenCV; BGR, mean
// pixel taken away, no scale. EXIF is applied, as by OpenCV. CMYK is Pillow's, up to 3 steps from
// OpenCV's.
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

// RT-DETR's own PyTorch code: torchvision's Resize([640, 640]) on Pillow images, then /255;
// transformers' RTDetrImageProcessor does the same. EXIF is ignored and CMYK converted as by
// Pillow. RT-DETR of ultralytics stretches what OpenCV reads: set antialias false and exif apply.
PreprocessParams Rtdetr() {
  PreprocessParams params;
  params.fit = Fit::kStretch;
  params.antialias = true;
  params.exif = ExifPolicy::kIgnore;
  return params;
}

// RF-DETR's predict: pixels of what Pillow reads, /255, torchvision's resize without antialias in
// float, ImageNet statistics; 560x560 is the base network's size. EXIF is ignored and CMYK
// converted as by Pillow.
PreprocessParams Rfdetr() {
  PreprocessParams params = StretchedInFloat(560);
  params.mean = {0.485, 0.456, 0.406};
  params.std = {0.229, 0.224, 0.225};
  return params;
}

// torchvision's ssd300_vgg16: normalised by the mean pixel, bilinear in float to 300x300. EXIF is
// ignored and CMYK converted as by Pillow.
PreprocessParams Ssd() {
  PreprocessParams params = StretchedInFloat(300);
  params.mean = {0.48235, 0.45882, 0.40784};
  params.std = {1.0 / 255.0, 1.0 / 255.0, 1.0 / 255.0};
  return params;
}

}  // namespace

std::span<const std::string_view> PresetNames() noexcept { return kNames; }

PreprocessParams Preset(std::string_view name) {
  constexpr std::array kMakers = {Ultralytics, Torchvision, Inception, Vgg, Rtdetr, Rfdetr, Ssd};
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return kMakers[i]();
  }
  FailArgument("preset is '", name, "': give one of ", JoinNames(kNames), DidYouMean(name, kNames));
}

}  // namespace endcap
