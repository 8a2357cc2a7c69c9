#include <algorithm>
#include <array>
#include <cmath>

#include "common/fail.h"
#include "common/param_table.h"
#include "endcap/preprocess.h"

namespace endcap {
namespace {

// What parameters may be at most.
constexpr int kMaxOutputSide = 16384;  // pixels; keeps every product of sizes within 32 bits
constexpr int kMaxSourceSide = 65535;  // what a JPEG can say
constexpr int64_t kMaxPixels = int64_t{kMaxSourceSide} * kMaxSourceSide;
constexpr int64_t kMaxBytes = int64_t{1} << 32;
constexpr int kMaxScans = 1000000;
constexpr int kMaxRois = 1000000;
constexpr int64_t kMaxMemory = int64_t{1} << 40;  // bytes
constexpr double kMaxOverlap = 0.99;
// scale, mean and std stay well inside float32, where they are used for pixels that are not
// quantized.
constexpr double kMaxNormalize = 1e9;
constexpr double kMinDivisor = 1e-9;

using Names = std::string_view;
constexpr Names kFits[] = {"letterbox", "stretch", "center_crop"};
constexpr Names kInterpolations[] = {"nearest", "bilinear", "bicubic", "area"};
constexpr Names kQuantize[] = {"uint8", "none"};
constexpr Names kPadAligns[] = {"center", "top_left"};
constexpr Names kColors[] = {"rgb", "bgr", "gray"};
constexpr Names kLayouts[] = {"nchw", "nhwc"};
constexpr Names kExif[] = {"apply", "ignore"};
constexpr Names kFormats[] = {"jpeg", "png", "webp", "bmp", "gif", "y4m"};
constexpr Names kDecode[] = {"exact", "fast"};
constexpr Names kDecoders[] = {"auto", "cpu", "hybrid", "nvjpeg"};
constexpr Names kBase64[] = {"accept", "reject"};
constexpr Names kRejectOrAccept[] = {"reject", "accept"};
constexpr Names kAlpha[] = {"drop", "white"};
constexpr Names kOnError[] = {"error", "blank"};
constexpr Names kDtypes[] = {"float32", "float16", "uint8", "int8"};
constexpr std::array kDtypeValues = {DType::kFloat32, DType::kFloat16, DType::kUint8, DType::kInt8};

using Params = PreprocessParams;

template <typename Get>
ParamField<Params> PerChannelField(std::string_view name, Get get) {
  return {name, "1 or 3 numbers, one per channel",
          [=](Params& p, std::string_view text) {
            const auto values = ReadNumbers(name, text, 3);
            get(p) = {values[0], values[1], values[2]};
          },
          [=](const Params& p) {
            const auto& v = get(p);
            return WriteNumber(v[0]) + "," + WriteNumber(v[1]) + "," + WriteNumber(v[2]);
          }};
}

ParamField<Params> ScaleField() {
  return {"scale", "a number that pixels are multiplied by",
          [](Params& p, std::string_view text) {
            p.scale = ReadNumber("scale", text, -kMaxNormalize, kMaxNormalize);
          },
          [](const Params& p) { return WriteNumber(p.ResolvedScale()); }};
}

ParamField<Params> DtypeField() {
  return {"dtype", "one of " + JoinNames(kDtypes),
          [](Params& p, std::string_view text) {
            p.dtype = kDtypeValues[static_cast<size_t>(ReadEnumIndex("dtype", text, kDtypes))];
          },
          [](const Params& p) { return std::string(DTypeName(p.dtype)); }};
}

ParamField<Params> FormatsField() {
  return {"formats", "one or more of " + JoinNames(kFormats) + ", with commas between",
          [](Params& p, std::string_view text) {
            FileFormats formats;
            for (const int index : ReadEnumIndices("formats", text, kFormats)) {
              formats.Add(static_cast<FileFormat>(index));
            }
            p.limits.formats = formats;
          },
          [](const Params& p) {
            std::string text;
            for (size_t i = 0; i < std::size(kFormats); ++i) {
              if (!p.limits.formats.Contains(static_cast<FileFormat>(i))) continue;
              if (!text.empty()) text += ',';
              text += kFormats[i];
            }
            return text;
          }};
}

// The parameter table, in the order in which people are shown it.
// NOLINTNEXTLINE(bugprone-macro-parentheses): a member's name cannot stand in parentheses
#define FIELD(expression) [](auto& p) -> auto& { return p.expression; }
const ParamTable<Params>& Table() {
  static const ParamTable<Params> table = {
      Means("height and width of the tensor",
            SizeField<Params>("size", kMaxOutputSide, FIELD(height), FIELD(width))),
      Means("how the image fits the tensor: scaled inside it with padding around; stretched to it; "
            "or its short side resized to resize_shorter and the middle cut out",
            EnumField<Params>("fit", kFits, FIELD(fit))),
      Means("length of the short side before the crop, in pixels; center_crop only",
            IntegerField<Params>("resize_shorter", 1, kMaxOutputSide, FIELD(resize_shorter))),
      Means("the filter, with half-pixel centres; area takes the mean of what a pixel covers",
            EnumField<Params>("interpolation", kInterpolations, FIELD(interpolation))),
      Means("the filter widens when shrinking, as Pillow's does; area is Pillow's box then",
            BoolField<Params>("antialias", FIELD(antialias))),
      Means("uint8: resized pixels are rounded to 8 bits, in the arithmetic of OpenCV, or of "
            "Pillow with antialias; none: float throughout",
            EnumField<Params>("quantize", kQuantize, FIELD(quantize))),
      Means("value of the padding, before normalisation; letterbox only",
            IntegerField<Params>("pad_value", 0, 255, FIELD(pad_value))),
      Means("where the image lies between its padding",
            EnumField<Params>("pad_align", kPadAligns, FIELD(pad_align))),
      Means("letterbox may enlarge", BoolField<Params>("upscale", FIELD(upscale))),
      Means("channel order of the tensor; gray is the luma",
            EnumField<Params>("color", kColors, FIELD(color))),
      Means("order of the dimensions", EnumField<Params>("layout", kLayouts, FIELD(layout))),
      Means("type of the elements; integers round half to even and saturate", DtypeField()),
      Means("y = (x * scale - mean) / std; by default 1 for uint8, otherwise 1/255", ScaleField()),
      Means("see scale; per channel of the tensor", PerChannelField("mean", FIELD(mean))),
      Means("see scale; per channel of the tensor", PerChannelField("std", FIELD(std))),
      Means("whether the EXIF orientation is applied",
            EnumField<Params>("exif", kExif, FIELD(exif))),
      Means("accepted file formats; a GIF or an animated WebP gives its first frame, and 16 bits "
            "keep their upper 8",
            FormatsField()),
      Means(
          "accept: an image may be base64 text of a file, also base64url and a data URL, which is "
          "how JSON holds it; limits are checked against the file",
          EnumField<Params>("base64", kBase64, FIELD(base64))),
      Means("drop: the alpha channel is left out, as by OpenCV and Pillow's convert(\"RGB\"), and "
            "transparent pixels have the color that is stored below; white: they are laid on white",
            EnumField<Params>("alpha", kAlpha, FIELD(alpha))),
      Means("exact: libjpeg-turbo's default pixels; fast: DCT scaling to the smallest size not "
            "below the target",
            EnumField<Params>("decode", kDecode, FIELD(decode))),
      Means("which decoder: auto, by device, decode and file; cpu: CPU threads; hybrid: entropy "
            "decoding and inverse DCT on CPU threads, the rest on the GPU; nvjpeg: the JPEG engine "
            "of data center GPUs, with decode fast only",
            EnumField<Params>("jpeg_decoder", kDecoders, FIELD(jpeg_decoder))),
      Means("most pixels that a header may claim; like max_side, max_bytes, max_scans, "
            "max_coefficient_bytes and max_decoded_bytes checked before any allocation",
            IntegerField<Params>("max_pixels", 1, kMaxPixels, FIELD(limits.max_pixels))),
      Means("most pixels a side",
            IntegerField<Params>("max_side", 1, kMaxSourceSide, FIELD(limits.max_side))),
      Means("most bytes of file",
            IntegerField<Params>("max_bytes", 1, kMaxBytes, FIELD(limits.max_bytes))),
      Means("most scans of a progressive or multi-scan file",
            IntegerField<Params>("max_scans", 1, kMaxScans, FIELD(limits.max_scans))),
      Means("most bytes of DCT coefficients, which a progressive or multi-scan file keeps of the "
            "whole image: 138 for each 8x8 block",
            IntegerField<Params>("max_coefficient_bytes", 1, kMaxMemory,
                                 FIELD(limits.max_coefficient_bytes))),
      Means("most bytes that are held of a whole image where it is not decoded row by row: 3 to 9 "
            "a pixel of a WebP, 2 or 4 of an interlaced PNG, 1 of an interlaced GIF or an RLE BMP",
            IntegerField<Params>("max_decoded_bytes", 1, kMaxMemory,
                                 FIELD(limits.max_decoded_bytes))),
      Means(
          "reject: a JPEG whose image data ends early is corrupt; accept: it is decoded, and what "
          "is missing is gray or coarse",
          EnumField<Params>("truncated", kRejectOrAccept, FIELD(truncated))),
      Means("reject: a JPEG with damage is corrupt; accept: it has the pixels that libjpeg-turbo "
            "makes up, for everything that it only warns about, truncated files included",
            EnumField<Params>("damaged", kRejectOrAccept, FIELD(damaged))),
      Means("most regions of interest, or tiles, of one image",
            IntegerField<Params>("max_rois", 1, kMaxRois, FIELD(max_rois))),
      Means("most bytes that the tensors of one image's regions or tiles may have together",
            IntegerField<Params>("max_roi_bytes", 1, kMaxMemory, FIELD(max_roi_bytes))),
      Means("cuts the image into tiles of that many of its pixels, each of which becomes a tensor; "
            "0: off",
            SizeField<Params>("tile", kMaxSourceSide, FIELD(tile_height), FIELD(tile_width), 0)),
      Means("the share of a tile that its neighbour repeats",
            NumberField<Params>("tile_overlap", 0.0, kMaxOverlap, FIELD(tile_overlap))),
      Means("the whole image is one more tile, the last, where there are several",
            BoolField<Params>("tile_full", FIELD(tile_full))),
      Means("error: a bad image fails its request and no other; blank: zeros for that image, its "
            "status says why",
            EnumField<Params>("on_error", kOnError, FIELD(on_error))),
  };
  return table;
}
#undef FIELD

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

void CheckTile(const PreprocessParams& params) {
  const auto [low, high] = std::minmax(params.tile_height, params.tile_width);
  if (low < 0 || high > kMaxSourceSide || (low == 0 && high > 0)) {
    FailArgument("tile is ", params.tile_height, ",", params.tile_width, ": give each from 1 to ",
                 kMaxSourceSide, ", or 0 for no tiles");
  }
  if (!(params.tile_overlap >= 0.0 && params.tile_overlap <= kMaxOverlap)) {
    FailArgument("tile_overlap is ", params.tile_overlap, ": give 0 to ", kMaxOverlap);
  }
}

void CheckDecoder(const PreprocessParams& params) {
  if (params.jpeg_decoder == JpegDecoder::kNvjpeg && params.damaged == Damaged::kAccept) {
    FailArgument("jpeg_decoder is nvjpeg with damaged accept: nvJPEG does not report damage and ",
                 "makes up other pixels than libjpeg-turbo, give jpeg_decoder auto, hybrid or cpu");
  }
  if (params.jpeg_decoder == JpegDecoder::kNvjpeg && params.decode == DecodeMode::kExact) {
    FailArgument("jpeg_decoder is nvjpeg with decode exact: its pixels are not libjpeg-turbo's, ",
                 "give decode fast");
  }
}

}  // namespace

PreprocessParams ParsePreprocessParams(const ParameterList& list) {
  PreprocessParams params;
  for (const auto& [name, text] : list) {
    if (name == "preset") params = Preset(text);
  }
  for (const auto& [name, text] : list) {
    if (name != "preset") SetParam(Table(), "preprocess", params, name, text, "preset");
  }
  Validate(params);
  return params;
}

std::vector<ParameterInfo> DescribePreprocessParams(const PreprocessParams& params) {
  return DescribeParams(Table(), params);
}

void Validate(const PreprocessParams& params) {
  CheckSides(params);
  if (params.pad_value < 0 || params.pad_value > 255) {
    FailArgument("pad_value is ", params.pad_value, ": give 0 to 255");
  }
  if (params.dtype == DType::kInt32 || params.dtype == DType::kInt64) {
    FailArgument("dtype is ", DTypeName(params.dtype), ": give float32, float16, uint8 or int8");
  }
  CheckResize(params);
  CheckNormalize(params);
  CheckDecoder(params);
  CheckTile(params);
}

}  // namespace endcap
