#include <array>

#include "common/param_table.h"
#include "endcap/preprocess.h"

namespace endcap {
namespace {

constexpr int kMaxOutputSide = 16384;  // pixels; keeps every product of sizes within 32 bits
constexpr int kMaxSourceSide = 65535;  // what a JPEG can say
constexpr int64_t kMaxPixels = int64_t{kMaxSourceSide} * kMaxSourceSide;
constexpr int64_t kMaxBytes = int64_t{1} << 32;
constexpr int kMaxScans = 1000000;
constexpr double kMaxScale = 1e9;

using Names = std::string_view;
constexpr Names kFits[] = {"letterbox", "stretch", "center_crop"};
constexpr Names kInterpolations[] = {"nearest", "bilinear", "bicubic", "area"};
constexpr Names kQuantize[] = {"uint8", "none"};
constexpr Names kPadAligns[] = {"center", "top_left"};
constexpr Names kColors[] = {"rgb", "bgr", "gray"};
constexpr Names kLayouts[] = {"nchw", "nhwc"};
constexpr Names kExif[] = {"apply", "ignore"};
constexpr Names kDecode[] = {"exact", "fast"};
constexpr Names kDecoders[] = {"auto", "cpu", "hybrid", "nvjpeg"};
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
            p.scale = ReadNumber("scale", text, -kMaxScale, kMaxScale);
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

// The parameter table, in the order in which people are shown it.
#define FIELD(expression) [](auto& p) -> auto& { return p.expression; }
const ParamTable<Params>& Table() {
  static const ParamTable<Params> table = {
      SizeField<Params>("size", kMaxOutputSide, FIELD(height), FIELD(width)),
      EnumField<Params>("fit", kFits, FIELD(fit)),
      IntegerField<Params>("resize_shorter", 1, kMaxOutputSide, FIELD(resize_shorter)),
      EnumField<Params>("interpolation", kInterpolations, FIELD(interpolation)),
      BoolField<Params>("antialias", FIELD(antialias)),
      EnumField<Params>("quantize", kQuantize, FIELD(quantize)),
      IntegerField<Params>("pad_value", 0, 255, FIELD(pad_value)),
      EnumField<Params>("pad_align", kPadAligns, FIELD(pad_align)),
      BoolField<Params>("upscale", FIELD(upscale)),
      EnumField<Params>("color", kColors, FIELD(color)),
      EnumField<Params>("layout", kLayouts, FIELD(layout)),
      DtypeField(),
      ScaleField(),
      PerChannelField("mean", FIELD(mean)),
      PerChannelField("std", FIELD(std)),
      EnumField<Params>("exif", kExif, FIELD(exif)),
      EnumField<Params>("decode", kDecode, FIELD(decode)),
      EnumField<Params>("jpeg_decoder", kDecoders, FIELD(jpeg_decoder)),
      IntegerField<Params>("max_pixels", 1, kMaxPixels, FIELD(limits.max_pixels)),
      IntegerField<Params>("max_side", 1, kMaxSourceSide, FIELD(limits.max_side)),
      IntegerField<Params>("max_bytes", 1, kMaxBytes, FIELD(limits.max_bytes)),
      IntegerField<Params>("max_scans", 1, kMaxScans, FIELD(limits.max_scans)),
      EnumField<Params>("on_error", kOnError, FIELD(on_error)),
  };
  return table;
}
#undef FIELD

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

}  // namespace endcap
