#include "endcap/box_decode.h"

#include <array>

#include "box_decode/families.h"
#include "common/fail.h"
#include "common/path_select.h"

namespace endcap {

std::span<const std::string_view> HeadFamilyNames() noexcept {
  static constexpr std::array<std::string_view, 5> kNames = {"yolov5", "yolov8", "end2end",
                                                             "efficient_nms", "classification"};
  return kNames;
}

std::string_view HeadFamilyName(HeadFamily family) noexcept {
  return HeadFamilyNames()[static_cast<size_t>(family)];
}

HeadSpecs SpecsOf(const HeadParams& params) noexcept {
  const int64_t classes = params.num_classes;
  switch (params.family) {
    case HeadFamily::kYolov5:
      return {{{{"head", DType::kFloat32, {-1, 5 + classes}, 2}}}, 1};
    case HeadFamily::kYolov8:
      return {{{{"head", DType::kFloat32, {4 + classes, -1}, 2}}}, 1};
    case HeadFamily::kEnd2End:
      return {{{{"head", DType::kFloat32, {-1, 6}, 2}}}, 1};
    case HeadFamily::kEfficientNms:
      return {{{{"num_detections", DType::kInt32, {1}, 1},
                {"boxes", DType::kFloat32, {-1, 4}, 2},
                {"scores", DType::kFloat32, {-1}, 1},
                {"classes", DType::kInt32, {-1}, 1}}},
              4};
    case HeadFamily::kClassification:
      return {{{{"logits", DType::kFloat32, {classes}, 1}}}, 1};
  }
  return {};
}

std::vector<TensorSpec> HeadInputs(const HeadParams& params) {
  const HeadSpecs heads = SpecsOf(params);
  return {heads.specs.begin(), heads.specs.begin() + static_cast<ptrdiff_t>(heads.count)};
}

namespace {

using Decoder = decltype(&DecodeYolov8);

Decoder DecoderOf(HeadFamily family, Path path) {
  const bool simd = path == Path::kSimd;
  switch (family) {
    case HeadFamily::kYolov5:
      return simd ? DecodeYolov5Simd : DecodeYolov5;
    case HeadFamily::kYolov8:
      return simd ? DecodeYolov8Simd : DecodeYolov8;
    case HeadFamily::kEnd2End:
      return DecodeEnd2End;
    case HeadFamily::kEfficientNms:
      return DecodeEfficientNms;
    case HeadFamily::kClassification:
      break;
  }
  FailArgument("head classification has no boxes: use Classify");
}

}  // namespace

bool NeedsNms(HeadFamily family) noexcept {
  return family == HeadFamily::kYolov5 || family == HeadFamily::kYolov8;
}

BoxFormat ResolvedBoxFormat(const HeadParams& params) noexcept {
  if (params.box_format != BoxFormat::kFamilyDefault) return params.box_format;
  return NeedsNms(params.family) ? BoxFormat::kCxcywh : BoxFormat::kXyxy;
}

void BoxDecode(const HeadParams& params, const std::vector<ConstTensorView>& inputs,
               Candidates& candidates) {
  const size_t expected = SpecsOf(params).count;
  if (inputs.size() != expected) {
    FailArgument("head ", HeadFamilyName(params.family), " came with ", inputs.size(),
                 " tensors: it needs ", expected);
  }
  const auto decode = DecoderOf(params.family, SelectPath(Stage::kBoxDecode));
  thread_local DecodeScratch scratch;
  decode(params, inputs, scratch, candidates);
  scratch.Trim();
}

}  // namespace endcap
