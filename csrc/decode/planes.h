#pragma once

#include <array>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "common/chroma_upsampling.h"
#include "endcap/decode.h"
#include "endcap/preprocess.h"

// YCbCr planes of a JPEG for the CUDA preprocess: their layout, the reader on the CPU, the choice
// of the decoder, and the data that nvJPEG is called with.

namespace endcap {

// Where a plane's rows and the planes in a block of memory begin: multiples of these, so that wide
// loads are aligned where the block is.
inline constexpr size_t kPlaneRowAlignment = 16;
inline constexpr size_t kPlaneAlignment = 256;

// One plane, 8 bits a sample, in a block of memory.
struct JpegPlane {
  int width = 0;   // samples; the last one is what upsampling repeats beyond the border
  int height = 0;  // of the whole plane; the last row is what upsampling repeats beyond the border
  int rows = 0;    // rows in the block: `height` unless end_row cut them
  // The bytes from `width` to the end of a row mean nothing, and those past the last whole block of
  // the file are never written; they may be read.
  size_t row_stride_bytes = 0;
  size_t offset_bytes = 0;  // of the first sample in the block
};

// What a JPEG decodes to before upsampling and color conversion.
struct JpegPlaneLayout {
  // False where only the library's own pixels will do (CMYK, RGB, 4:1:1, chroma too narrow for the
  // triangle filter): such a file is decoded by DecodeToBands, and no other field means anything.
  bool available = false;
  int width = 0;  // of the image at its DCT scale, pixels as stored
  int height = 0;
  ChromaUpsampling upsampling = ChromaUpsampling::kGray;
  int plane_count = 0;  // 1: Y; 3: Y, Cb, Cr
  std::array<JpegPlane, 3> planes{};
  size_t size_bytes = 0;  // of the block
};

class PlaneDecoder;

// Entropy decoding and inverse DCT of one file, straight into memory of the caller's (pinned memory
// that a GPU copies from); upsampling and color conversion are left to the reader of the planes.
// The samples are those that DecodeToBands makes its pixels of.
//
// The file is opened once, for layout and decoding; its bytes must stay as they are until then. A
// progressive file's coefficients are held only while Decode runs. Not thread-safe; different
// readers are independent.
class JpegPlaneReader {
 public:
  // `header` must come from ReadHeader on the same bytes, which checked the limits. One channel
  // asks for luma alone, three or four for color. Image rows from `end_row` on are not needed:
  // their samples are left out, but for those that upsampling takes into rows above. Allocates
  // nothing for samples. Throws kCorruptImage, kOutOfMemory.
  JpegPlaneReader(const ImageView& file, const ImageHeader& header, const DecodeOptions& options,
                  int end_row = INT_MAX);
  ~JpegPlaneReader();
  JpegPlaneReader(JpegPlaneReader&& other) noexcept;
  JpegPlaneReader& operator=(JpegPlaneReader&& other) noexcept;

  const JpegPlaneLayout& layout() const noexcept { return layout_; }

  // Writes layout().size_bytes bytes at most to `block`, which should be aligned to
  // kPlaneAlignment. The time reported includes that of the constructor. Once only, and only where
  // the layout is available. Throws kCorruptImage for truncated and damaged data up to the last row
  // needed, kOutOfMemory.
  DecodeReport Decode(uint8_t* block);

 private:
  std::unique_ptr<PlaneDecoder> decoder_;
  JpegPlaneLayout layout_;
  int end_row_ = INT_MAX;
  int mcu_rows_needed_ = 0;
  int64_t open_ns_ = 0;
};

// Which decoder takes a JPEG on its way to the GPU. kNvjpeg is a proposal: the JPEG engine is asked
// about the file before it decodes (decode/cuda/nvjpeg_decoder.h).

// Pixels of a batch of files from which nvJPEG is taken to be worthwhile. Not measured yet: a
// placeholder until a GPU has been measured on which nvJPEG overtakes the CPU's threads.
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

// Arguments of the nvJPEG functions of KernelTable, see decode/cuda/nvjpeg_decoder.h.

struct NvjpegPlane {
  uint8_t* data = nullptr;  // device memory for height * row_stride_bytes bytes
  size_t row_stride_bytes = 0;
  int32_t width = 0;  // samples; the file's component must have this size
  int32_t height = 0;
};

struct NvjpegImage {
  const uint8_t* bytes = nullptr;  // a JPEG file in CPU memory
  size_t size_bytes = 0;
  int32_t plane_count = 0;  // 1: luma alone; 3: Y, Cb, Cr as the file has them
  std::array<NvjpegPlane, 3> planes{};

  // Results.
  int32_t status = 0;             // an ErrorCode
  const char* message = nullptr;  // lives as long as the process; null when status is kOk
};

struct NvjpegDecodeBatch {
  NvjpegImage* images = nullptr;
  int32_t count = 0;
};

// Which nvJPEG a process has; the texts live as long as the process.
struct NvjpegFacts {
  const char* library_path = "";  // empty where there is none
  const char* version = "";       // "13.0.1"; empty where it is unknown
};

}  // namespace endcap
