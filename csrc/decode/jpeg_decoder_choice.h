#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "endcap/preprocess.h"

namespace endcap {

// Which decoder takes a JPEG on its way to the GPU. kNvjpeg is a proposal: the JPEG engine is asked
// about the file before it decodes (decode/nvjpeg_decoder.h).

// A batch of so many pixels, as files, is taken to be worth nvJPEG. Not measured yet: a placeholder
// until a GPU has told where nvJPEG overtakes the CPU's threads.
inline constexpr int64_t kNvjpegCrossoverPixels = int64_t{8} << 20;

// What of a file decides.
struct JpegFileKind {
  bool has_planes = false;  // else only the CPU gives its pixels (JpegPlaneLayout)
  bool one_scan = false;    // sequential, and all components in one scan
  bool ended = false;       // its last bytes are the end marker: nvJPEG does not report lost data
};

struct JpegDecoderRequest {
  DecodeMode mode = DecodeMode::kExact;
  JpegDecoder requested = JpegDecoder::kAuto;
  bool nvjpeg_available = false;
  int batch_size = 1;
  int64_t pixels = 0;  // of the file
  JpegFileKind file;
};

// Whether the last bytes of a file are the end marker.
bool EndsWithEndMarker(const uint8_t* bytes, size_t size) noexcept;

// Throws what no file can make possible: kInvalidArgument for nvJPEG with exact pixels; kCuda, with
// `why_not`, for nvJPEG where it is not available.
void CheckJpegDecoder(DecodeMode mode, JpegDecoder requested, bool nvjpeg_available,
                      std::string_view why_not);

// The decoder of one file, for a request that was checked: kCpu, kHybrid or kNvjpeg. Hybrid becomes
// kCpu for files without planes: the same library, the same pixels. `auto` gives exact pixels to
// hybrid, and fast ones to nvJPEG for whole files of one scan in batches of the crossover's size;
// so with `fast` the last bits of a result may depend on the batch's size. Throws, for nvJPEG by
// name, kUnsupported for files without planes and kCorruptImage for those without an end.
JpegDecoder ChooseJpegDecoder(const JpegDecoderRequest& request);

}  // namespace endcap
