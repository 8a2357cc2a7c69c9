#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace endcap {

// What took an image.
enum class NvjpegBackend : int32_t {
  kNone,      // nothing: its status says why
  kHardware,  // the GPU's JPEG engine
  kCuda,      // nvJPEG's kernels, with Huffman decoding on the GPU or the CPU
};

struct NvjpegPlane {
  uint8_t* data = nullptr;  // device memory for height * row_stride_bytes bytes
  size_t row_stride_bytes = 0;
  int32_t width = 0;  // samples; the file's component must have this size
  int32_t height = 0;
};

struct NvjpegImage {
  const uint8_t* bytes = nullptr;  // a JPEG in CPU memory, read before the call returns
  size_t size_bytes = 0;
  int32_t plane_count = 0;  // 1: luma alone; 3: Y, Cb, Cr as the file has them
  std::array<NvjpegPlane, 3> planes{};

  // Results.
  int32_t status = 0;             // an ErrorCode
  const char* message = nullptr;  // a sentence that lives as long as the process; null when kOk
  NvjpegBackend backend = NvjpegBackend::kNone;
};

// Images to decode together. One that fails touches no other.
struct NvjpegDecodeBatch {
  NvjpegImage* images = nullptr;
  int32_t count = 0;
};

}  // namespace endcap
