#include "endcap/box_decode.h"

#include <array>

#include "box_decode/families.h"
#include "box_decode/head_input.h"
#include "common/fail.h"
#include "common/select_implementation.h"

namespace endcap {

std::vector<TensorSpec> HeadInputs(const HeadParams& params) {
  const HeadSpecs heads = MakeHeadSpecs(params);
  return {heads.specs.begin(), heads.specs.begin() + static_cast<ptrdiff_t>(heads.count)};
}

namespace {

DecodeFunction* SelectDecoder(HeadFamily family, Implementation implementation) {
  const bool simd = implementation == Implementation::kSimd;
  switch (family) {
    case HeadFamily::kYolov5:
      return simd ? DecodeYolov5Simd : DecodeYolov5;
    case HeadFamily::kYolov8:
    case HeadFamily::kYolov8Seg:
    case HeadFamily::kYolov8Pose:
    case HeadFamily::kYolov8Obb:
      return simd ? DecodeYolov8Simd : DecodeYolov8;
    case HeadFamily::kEnd2End:
      return DecodeEnd2End;
    case HeadFamily::kRtdetr:
      return simd ? DecodeRtdetrSimd : DecodeRtdetr;
    case HeadFamily::kSsd:
      return simd ? DecodeSsdSimd : DecodeSsd;
    case HeadFamily::kEfficientNms:
      return DecodeEfficientNms;
    case HeadFamily::kClassification:
      break;
  }
  FailArgument("head classification has no boxes: use Classify");
}

}  // namespace

void BoxDecode(const HeadParams& params, const std::vector<ConstTensorView>& inputs,
               Candidates& candidates) {
  const size_t expected = MakeHeadSpecs(params).count;
  if (inputs.size() != expected) {
    FailArgument("head ", HeadFamilyName(params.family), " came with ", inputs.size(),
                 " tensors: it needs ", expected);
  }
  // Read only when it is known what is kept.
  if (params.family == HeadFamily::kYolov8Seg)
    CheckHostTensor(MakeHeadSpecs(params).specs[1], inputs[1]);
  DecodeFunction* decode = SelectDecoder(params.family, SelectImplementation(Stage::kBoxDecode));
  thread_local DecodeScratch scratch;
  const TrimAtEnd trim(scratch);
  decode(params, inputs, scratch, candidates);
}

}  // namespace endcap
