#pragma once

#include <array>
#include <cstddef>

#include "common/chroma_upsampling.h"
#include "endcap/image_view.h"

namespace endcap {

constexpr bool IsYuv(PixelFormat format) {
  return format == PixelFormat::kNv12 || format == PixelFormat::kPlanarYuv;
}

// A plane as stored.
struct YuvPlaneSize {
  size_t row_bytes = 0;
  int rows = 0;
};

// The planes of an image in YUV, NV12 and planar alike.
struct YuvPlanes {
  ImageView::Plane luma;
  std::array<ChromaPlane, 2> chroma;  // Cb, Cr
  ChromaUpsampling upsampling = ChromaUpsampling::kNone;
};

// Throws kInvalidArgument where a plane is missing, a step of chroma is not 1 or 2, or rows are
// closer together than they are long. The size is checked already.
void CheckYuv(const ImageView& image);

// Planes that are stored: 2 or 3.
int YuvPlaneCount(PixelFormat format);
YuvPlaneSize ComputeYuvPlaneSize(const ImageView& image, int plane);

// The image is checked already.
YuvPlanes MakeYuvPlanes(const ImageView& image);

}  // namespace endcap
