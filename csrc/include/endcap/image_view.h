#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "endcap/tensor_view.h"

namespace endcap {

enum class PixelFormat : int32_t {
  kEncoded,  // a compressed file: planes[0] holds size_bytes bytes
  kRgb,      // interleaved, 8 bits a channel
  kBgr,
  kGray,
  // YUV of 8 bits a sample. The sides of U and V are divided by their steps, rounded up. They are
  // upsampled by the triangle filter of JPEG chroma: samples are centred on their pixels.
  kNv12,      // Y plane, then one plane of interleaved U and V at half size
  kPlanarYuv  // Y, U, V planes; U and V at 1/chroma_step_x, 1/chroma_step_y of the size
};

// Of ITU-R BT.601, BT.709 and BT.2020 (non-constant luminance).
enum class YuvMatrix : int32_t { kBt601, kBt709, kBt2020 };
// kFull: 0 to 255, as in JPEGs; kLimited: Y from 16 to 235, U and V from 16 to 240.
enum class YuvRange : int32_t { kFull, kLimited };

// A view of an image: an encoded file, or decoded pixels. Owns nothing.
struct ImageView {
  struct Plane {
    const uint8_t* data = nullptr;
    ptrdiff_t row_stride_bytes = 0;  // may be negative: rows stored bottom up
  };

  PixelFormat format = PixelFormat::kEncoded;
  std::array<Plane, 3> planes{};
  size_t size_bytes = 0;  // encoded only
  int width = 0;          // pixels; decoded only
  int height = 0;         // pixels; decoded only
  int chroma_step_x = 2;  // kPlanarYuv only: 1 or 2
  int chroma_step_y = 2;
  YuvMatrix matrix = YuvMatrix::kBt601;
  YuvRange range = YuvRange::kLimited;
  Device device = Device::kCpu;
  int device_id = 0;

  static ImageView Encoded(const void* bytes, size_t size_bytes) noexcept {
    ImageView view;
    view.planes[0].data = static_cast<const uint8_t*>(bytes);
    view.size_bytes = size_bytes;
    return view;
  }
  static ImageView Interleaved(PixelFormat format, const uint8_t* pixels, int width, int height,
                               ptrdiff_t row_stride_bytes) noexcept {
    ImageView view;
    view.format = format;
    view.planes[0] = {pixels, row_stride_bytes};
    view.width = width;
    view.height = height;
    return view;
  }
};

}  // namespace endcap
