#include "box_decode/families.h"
#include "common/fail.h"
#include "masks/masks.h"
#include "postprocess/cuda/detection_plan.h"

namespace endcap {
namespace {

// The messages of the CPU implementation, from what a kernel noted.
[[noreturn]] void Throw(const HeadParams& params, const DetectionRecord& record) {
  const auto [first, second] = record.values;
  const auto element = record.element;
  switch (record.fault) {
    case DetectionFault::kGeometryNotFinite:
      FailArgument("geometry is not finite at element ", element);
    case DetectionFault::kGeometryScale:
      FailArgument("geometry has scales ", first, " and ", second, ": both must be greater than 0");
    case DetectionFault::kGeometryImage:
      FailArgument("geometry has an image of ", first, "x", second, " pixels");
    case DetectionFault::kNegativeCount:
      FailArgument("num_detections is ", static_cast<int64_t>(first), ": it must not be negative");
    case DetectionFault::kNan:
      FailArgument(MakeHeadSpecs(params).specs.at(static_cast<size_t>(record.input)).name,
                   " is NaN at element ", element);
    case DetectionFault::kCountBeyondRows:
      FailArgument("num_detections is ", static_cast<int64_t>(first), ": the boxes have ",
                   static_cast<int64_t>(second), " rows");
    case DetectionFault::kScoreNan:
      FailArgument("the score of anchor ", element, " is not a number");
    case DetectionFault::kUnknownClass:
      FailArgument("row ", element, " has class ", first, ": num_classes is ", params.num_classes);
    case DetectionFault::kBoxNotFinite:
      FailArgument("the box of candidate ", element, " is not finite");
    case DetectionFault::kScoreNotFinite:
      FailArgument("the score of candidate ", element, " is not finite");
    case DetectionFault::kHighestNotFinite:
      FailArgument("the greatest of the logits is ", first, ", not finite");
    case DetectionFault::kRowHighestNotFinite:
      FailArgument("the greatest score of row ", element, " is ", first,
                   ": a softmax needs a finite one");
    case DetectionFault::kClassScoreNotFinite:
      FailArgument("the score of class ", element, " is ", first);
    case DetectionFault::kExtraNotFinite:
      FailAnchorValue(params, static_cast<float>(first), static_cast<uint32_t>(second), element);
    case DetectionFault::kTooManyDropped:
      FailDropped(static_cast<int64_t>(first), static_cast<int64_t>(second));
    case DetectionFault::kMaskSide:
      FailMaskSide(second == 0 ? "image_w" : "image_h", static_cast<float>(first));
    case DetectionFault::kMaskLogit: {
      const MaskPlace place = MaskPlace::Of(static_cast<uint32_t>(second));
      FailLogit(DetectionName(element, record.input), place.row, place.column,
                static_cast<float>(first));
    }
    case DetectionFault::kNone:
      break;
  }
  Fail(ErrorCode::kInternal, "a record of the GPU names no fault");
}

}  // namespace

PostprocessItem MakeItem(const HeadParams& params, const DetectionRecord& record) {
  PostprocessItem item;
  if (record.fault == DetectionFault::kNone) {
    item.num_detections = record.num_detections;
    item.truncated = record.truncated != 0;
    item.dropped = record.dropped;
    return item;
  }
  try {
    Throw(params, record);
  } catch (...) {
    item.status = MakeStatusFromCurrentException();
  }
  return item;
}

}  // namespace endcap
