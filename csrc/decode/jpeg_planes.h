#pragma once

#include <climits>
#include <cstdint>
#include <memory>

#include "decode/jpeg_plane_layout.h"
#include "endcap/decode.h"

namespace endcap {

class LibjpegSession;

// Entropy decoding and inverse DCT of one file, straight into memory of the caller's (pinned memory
// that a GPU copies from); upsampling and color conversion are left to whoever reads the planes.
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
  // kPlaneAlignment. Returns the nanoseconds spent in the decoder, those of the constructor
  // included. Once only, and only where the layout is available. Throws kCorruptImage for
  // truncated and damaged data up to the last row needed, kOutOfMemory.
  int64_t Decode(uint8_t* block);

 private:
  std::unique_ptr<LibjpegSession> session_;
  JpegPlaneLayout layout_;
  ImageHeader header_;
  int end_row_ = INT_MAX;
  int mcu_rows_needed_ = 0;
  int64_t open_ns_ = 0;
};

}  // namespace endcap
