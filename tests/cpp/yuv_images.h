#pragma once

#include <array>
#include <cstdint>

#include "endcap/image_view.h"
#include "jpeg_writer.h"

namespace endcap::testing {

// A kind of YUV pixels.
struct YuvKind {
  PixelFormat format = PixelFormat::kNv12;
  int step_x = 2;
  int step_y = 2;
  YuvMatrix matrix = YuvMatrix::kBt601;
  YuvRange range = YuvRange::kLimited;
};

// Planes of noise, or of given bytes, and their view. Rows lie `gap` bytes apart.
struct YuvImage {
  std::array<Bytes, 3> planes;
  ImageView view;

  YuvImage(const YuvKind& kind, int height, int width, size_t gap = 0) {
    view.format = kind.format;
    view.width = width;
    view.height = height;
    view.chroma_step_x = kind.step_x;
    view.chroma_step_y = kind.step_y;
    view.matrix = kind.matrix;
    view.range = kind.range;
    const int chroma_width = (width + kind.step_x - 1) / kind.step_x;
    const int chroma_height = (height + kind.step_y - 1) / kind.step_y;
    if (kind.format == PixelFormat::kNv12) {
      Fill(0, height, width, gap);
      Fill(1, chroma_height, 2 * chroma_width, gap);
    } else {
      Fill(0, height, width, gap);
      Fill(1, chroma_height, chroma_width, gap);
      Fill(2, chroma_height, chroma_width, gap);
    }
  }
  YuvImage(const YuvImage&) = delete;
  YuvImage& operator=(const YuvImage&) = delete;

 private:
  // Any value may occur, those outside the limited range as well.
  void Fill(size_t plane, int height, int width, size_t gap) {
    const size_t stride = static_cast<size_t>(width) + gap;
    planes[plane].resize(stride * static_cast<size_t>(height));
    uint32_t state = 12345 + 77 * static_cast<uint32_t>(plane);
    for (uint8_t& sample : planes[plane]) {
      state = state * 1664525U + 1013904223U;
      sample = static_cast<uint8_t>(state >> 24);
    }
    view.planes[plane] = {planes[plane].data(), static_cast<ptrdiff_t>(stride)};
  }
};

}  // namespace endcap::testing
