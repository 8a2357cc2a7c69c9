#include "preprocess/resize/resizer.h"

#include "preprocess/resize/band_resizer.h"
#include "preprocess/resize/row_filter_scalar.h"
#include "preprocess/resize/row_filter_simd.h"
#include "preprocess/resize/transposed_resizer.h"

namespace endcap {
namespace {

template <typename Opencv8, typename OpencvFloat8, typename Pillow8, typename Float>
std::unique_ptr<Resizer> MakeRowResizer(const PreprocessParams& params, const Placement& placement,
                                        const OrientationTransform& transform, RowWriter& writer) {
  switch (SelectArithmetic(params)) {
    case ResizeArithmetic::kOpencv8:
      return std::make_unique<BandResizer<Opencv8>>(params, placement, transform, writer);
    case ResizeArithmetic::kOpencvFloat8:
      return std::make_unique<BandResizer<OpencvFloat8>>(params, placement, transform, writer);
    case ResizeArithmetic::kPillow8:
      return std::make_unique<BandResizer<Pillow8>>(params, placement, transform, writer);
    case ResizeArithmetic::kFloat:
      break;
  }
  return std::make_unique<BandResizer<Float>>(params, placement, transform, writer);
}

}  // namespace

int RowChannels(Implementation implementation, const PreprocessParams& params) {
  return implementation == Implementation::kSimd && params.color != Color::kGray
             ? 4
             : params.channels();
}

// Integer sums do not depend on the order of the taps, so that mirrored taps give the same pixels;
// sums of floats would round differently.
bool StreamsOriented(Implementation implementation, const PreprocessParams& params) {
  const ResizeArithmetic arithmetic = SelectArithmetic(params);
  return implementation == Implementation::kSimd && params.color != Color::kGray &&
         (arithmetic == ResizeArithmetic::kOpencv8 || arithmetic == ResizeArithmetic::kPillow8);
}

std::unique_ptr<Resizer> MakeResizer(Implementation implementation, const PreprocessParams& params,
                                     const Placement& placement,
                                     const OrientationTransform& transform, RowWriter& writer) {
  if (implementation != Implementation::kSimd) {
    return MakeRowResizer<Opencv8Scalar<int32_t>, OpencvFloat8Scalar, Pillow8Scalar, FloatScalar>(
        params, placement, transform, writer);
  }
  if (!transform.swap_axes) {
    return MakeRowResizer<Opencv8Simd, OpencvFloat8Simd, Pillow8Simd, FloatSimd>(params, placement,
                                                                                 transform, writer);
  }
  if (SelectArithmetic(params) == ResizeArithmetic::kOpencv8) {
    return std::make_unique<TransposedResizer<Opencv8Simd>>(params, placement, transform, writer);
  }
  return std::make_unique<TransposedResizer<Pillow8Simd>>(params, placement, transform, writer);
}

}  // namespace endcap
