#pragma once

#include <array>
#include <cstdint>

#include "endcap/image_view.h"
#include "jpeg_writer.h"

namespace endcap::testing {

// Planes of noise with chroma of half the columns and rows, and their view.
struct YuvImage {
  std::array<Bytes, 3> planes;
  ImageView view;

  YuvImage(PixelFormat format, int height, int width) {
    view.format = format;
    view.width = width;
    view.height = height;
    view.chroma_step_x = view.chroma_step_y = 2;
    const int chroma_width = (width + 1) / 2;
    const int chroma_height = (height + 1) / 2;
    const bool is_nv12 = format == PixelFormat::kNv12;
    Fill(0, height, width);
    Fill(1, chroma_height, is_nv12 ? 2 * chroma_width : chroma_width);
    if (!is_nv12) Fill(2, chroma_height, chroma_width);
  }
  YuvImage(const YuvImage&) = delete;
  YuvImage& operator=(const YuvImage&) = delete;

 private:
  // Any value may occur, those outside the limited range as well.
  void Fill(size_t plane, int height, int width) {
    planes[plane].resize(static_cast<size_t>(width) * static_cast<size_t>(height));
    uint32_t state = 12345 + 77 * static_cast<uint32_t>(plane);
    for (uint8_t& sample : planes[plane]) {
      state = state * 1664525U + 1013904223U;
      sample = static_cast<uint8_t>(state >> 24);
    }
    view.planes[plane] = {planes[plane].data(), width};
  }
};

}  // namespace endcap::testing
