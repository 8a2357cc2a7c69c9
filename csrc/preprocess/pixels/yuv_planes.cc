#include "preprocess/pixels/yuv_planes.h"

#include <cstdlib>

#include "common/fail.h"

namespace endcap {
namespace {

struct ChromaSteps {
  int x;
  int y;
};

ChromaSteps GetChromaSteps(const ImageView& image) {
  if (image.format == PixelFormat::kNv12) return {2, 2};
  return {image.chroma_step_x, image.chroma_step_y};
}

int CeilDivide(int a, int b) { return a / b + (a % b != 0 ? 1 : 0); }

ChromaUpsampling GetUpsampling(const ChromaSteps& steps) {
  if (steps.x == 1) return steps.y == 1 ? ChromaUpsampling::kNone : ChromaUpsampling::kRows;
  return steps.y == 1 ? ChromaUpsampling::kColumns : ChromaUpsampling::kColumnsAndRows;
}

const char* GetPlaneName(PixelFormat format, int plane) {
  if (plane == 0) return "Y";
  if (format == PixelFormat::kNv12) return "UV";
  return plane == 1 ? "U" : "V";
}

}  // namespace

int YuvPlaneCount(PixelFormat format) { return format == PixelFormat::kNv12 ? 2 : 3; }

YuvPlaneSize ComputeYuvPlaneSize(const ImageView& image, int plane) {
  if (plane == 0) return {static_cast<size_t>(image.width), image.height};
  const ChromaSteps steps = GetChromaSteps(image);
  const auto samples = static_cast<size_t>(CeilDivide(image.width, steps.x));
  return {image.format == PixelFormat::kNv12 ? 2 * samples : samples,
          CeilDivide(image.height, steps.y)};
}

void CheckYuv(const ImageView& image) {
  for (const int step : {GetChromaSteps(image).x, GetChromaSteps(image).y}) {
    if (step != 1 && step != 2) {
      FailArgument("the image has a chroma sample for every ", step,
                   " pixels of a row or column; give a chroma step of 1 or 2");
    }
  }
  for (int i = 0; i < YuvPlaneCount(image.format); ++i) {
    const ImageView::Plane& plane = image.planes[static_cast<size_t>(i)];
    const char* name = GetPlaneName(image.format, i);
    if (plane.data == nullptr) FailArgument("the image has no ", name, " plane");
    const YuvPlaneSize size = ComputeYuvPlaneSize(image, i);
    if (size.rows > 1 && static_cast<size_t>(std::abs(plane.row_stride_bytes)) < size.row_bytes) {
      FailArgument("the rows of the ", name, " plane lie ", plane.row_stride_bytes,
                   " bytes apart; each has ", size.row_bytes);
    }
  }
}

YuvPlanes MakeYuvPlanes(const ImageView& image) {
  const ChromaSteps steps = GetChromaSteps(image);
  const bool pairs = image.format == PixelFormat::kNv12;
  YuvPlanes planes;
  planes.luma = image.planes[0];
  planes.upsampling = GetUpsampling(steps);
  for (size_t i = 0; i < planes.chroma.size(); ++i) {
    const ImageView::Plane& plane = image.planes[pairs ? 1 : i + 1];
    planes.chroma[i] = {pairs ? plane.data + i : plane.data, plane.row_stride_bytes, pairs ? 2 : 1,
                        CeilDivide(image.width, steps.x), CeilDivide(image.height, steps.y)};
  }
  return planes;
}

}  // namespace endcap
