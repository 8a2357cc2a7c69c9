#include "preprocess/resizer.h"

#include "preprocess/band_resizer.h"
#include "preprocess/row_filter.h"
#include "preprocess/row_filter_simd.h"
#include "preprocess/turned_resizer.h"

namespace endcap {
namespace {

template <typename Opencv8, typename OpencvFloat8, typename Pillow8, typename Float>
std::unique_ptr<Resizer> MakeUprightResizer(const PreprocessParams& params,
                                            const Placement& placement, const Walk& walk,
                                            RowWriter& writer) {
  switch (ArithmeticOf(params)) {
    case ResizeArithmetic::kOpencv8:
      return std::make_unique<BandResizer<Opencv8>>(params, placement, walk, writer);
    case ResizeArithmetic::kOpencvFloat8:
      return std::make_unique<BandResizer<OpencvFloat8>>(params, placement, walk, writer);
    case ResizeArithmetic::kPillow8:
      return std::make_unique<BandResizer<Pillow8>>(params, placement, walk, writer);
    case ResizeArithmetic::kFloat:
      break;
  }
  return std::make_unique<BandResizer<Float>>(params, placement, walk, writer);
}

}  // namespace

int RowChannels(Path path, const PreprocessParams& params) {
  return path == Path::kSimd && params.color != Color::kGray ? 4 : params.channels();
}

// Sums of whole numbers do not depend on the taps' order.
bool StreamsTurned(Path path, const PreprocessParams& params) {
  const ResizeArithmetic arithmetic = ArithmeticOf(params);
  return path == Path::kSimd && params.color != Color::kGray &&
         (arithmetic == ResizeArithmetic::kOpencv8 || arithmetic == ResizeArithmetic::kPillow8);
}

std::unique_ptr<Resizer> MakeResizer(Path path, const PreprocessParams& params,
                                     const Placement& placement, const Walk& walk,
                                     RowWriter& writer) {
  if (path != Path::kSimd) {
    return MakeUprightResizer<Opencv8Scalar, OpencvFloat8Scalar, Pillow8Scalar, FloatScalar>(
        params, placement, walk, writer);
  }
  if (!walk.swap_axes) {
    return MakeUprightResizer<Opencv8Simd, OpencvFloat8Simd, Pillow8Simd, FloatSimd>(
        params, placement, walk, writer);
  }
  if (ArithmeticOf(params) == ResizeArithmetic::kOpencv8) {
    return std::make_unique<TurnedResizer<Opencv8Simd>>(params, placement, walk, writer);
  }
  return std::make_unique<TurnedResizer<Pillow8Simd>>(params, placement, walk, writer);
}

}  // namespace endcap
