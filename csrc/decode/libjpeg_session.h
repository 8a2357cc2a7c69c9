#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdint>
// clang-format off
#include <cstdio>  // jpeglib.h uses FILE and size_t without including what declares them
#include <jpeglib.h>
// clang-format on

#include <chrono>
#include <memory>
#include <optional>
#include <span>

#include "common/chroma_upsampling.h"
#include "decode/entropy_decoder.h"
#include "decode/sequential_decoder.h"
#include "endcap/decode.h"

namespace endcap {

// Samples of a block's side that the inverse DCT gives, for one component and for the one with the
// fewest. The fields' names depend on the version of the interface.
#if JPEG_LIB_VERSION >= 70
inline int ScaledBlockSize(const jpeg_component_info& component) {
  return component.DCT_h_scaled_size;
}
inline int MinScaledBlockSize(const jpeg_decompress_struct& info) {
  return info.min_DCT_h_scaled_size;
}
#else
inline int ScaledBlockSize(const jpeg_component_info& component) {
  return component.DCT_scaled_size;
}
inline int MinScaledBlockSize(const jpeg_decompress_struct& info) {
  return info.min_DCT_scaled_size;
}
#endif

// One libjpeg-turbo decompression, from header to last row. Errors of the library become
// kCorruptImage; so do its warnings of lost image data, which it would conceal by
// making up pixels. Harmless ones (stray bytes between segments, a missing end marker) pass, and
// with Truncated::kAccept those that come of image data that ends early.
class LibjpegSession {
 public:
  LibjpegSession(std::span<const uint8_t> file, Truncated truncated);
  ~LibjpegSession();
  LibjpegSession(const LibjpegSession&) = delete;
  LibjpegSession& operator=(const LibjpegSession&) = delete;

  const jpeg_decompress_struct& info() const noexcept { return info_; }

  // Throws kCorruptImage where the file is not the one that `expected` was read of: limits were
  // checked on that, and memory that another thread writes to meanwhile must not get past them.
  void ReadHeader(const ImageHeader& expected);
  // Sets output color space and DCT scale; afterwards the sizes in info() are settled.
  void SetOutput(J_COLOR_SPACE color, int scale_denominator);
  // Leaves out the components after the first when planes are read: their samples are not computed.
  // Between ReadHeader and Start.
  void TakeFirstComponentOnly() noexcept;
  // Starts; for ReadPlanes where `raw`, else for ReadRows. A multi-scan file is read whole here.
  // codes: who decodes the Huffman codes; SequentialDecoder or EntropyDecoder where they can,
  // unless truncated files are accepted: what the library makes up then depends on its own decoder.
  enum class Codes { kLibrary, kEndcap };
  void Start(bool raw, Codes codes);
  // Reads up to `capacity` rows; at least one. Throws when the data is damaged up to there.
  int ReadRows(JSAMPROW* rows, int capacity);
  // Skips `count` rows, without the last of the image: their entropy coding is read, no more.
  // Throws as ReadRows.
  void SkipRows(int count);
  // Samples outside of these columns of the image are not needed, nor written where that saves
  // time. Between Start and ReadPlanes.
  void NeedColumns(int begin, int end) noexcept {
    if (sequential_ != nullptr) sequential_->NeedColumns(begin, end);
  }
  // Reads one row of MCUs, `rows` rows of the image at full size, as its components' samples.
  void ReadPlanes(JSAMPIMAGE planes, int rows);
  // The same without the inverse DCT: no sample is written. All components count as needed
  // afterwards, so it does not go with TakeFirstComponentOnly.
  void SkipPlanes(JSAMPIMAGE planes, int rows);

  // After the last row before `end_row` was read. Throws kCorruptImage for a truncated file that
  // shows no damage, because what follows the image data was decoded in the place of the missing
  // rest: where that row is in the last row of MCUs, a file of one scan without an end marker must
  // not end in zeros, nor have bytes that no MCU needs but 0xFF, which fills up. `header`, as for
  // ReadHeader.
  void CheckEnd(const ImageHeader& header, int end_row);

 private:
  struct ErrorManager {
    jpeg_error_mgr base;
    std::jmp_buf escape;
    char message[JMSG_LENGTH_MAX];
    bool data_lost;
    bool accepts_end;  // image data that ends early is no lost data
    bool has_ended;    // and it did
  };
  struct SourceManager {
    jpeg_source_mgr base;
    bool past_end;
  };

  struct ProgressMonitor {
    jpeg_progress_mgr base;
    int scan_count;                       // of the header
    void (*take_over)(j_decompress_ptr);  // called once; then null
  };

  template <typename Call>
  void Guarded(Call call);
  void ThrowIfDataLost() const;
  void LeaveOutCutSegment();
  bool HasEndMarker() const noexcept;
  void NeedComponents(bool needed) noexcept;
  void ReadMcuRow(JSAMPIMAGE planes);

  static void OnProgress(j_common_ptr info);
  static void OnError(j_common_ptr info);
  static void OnMessage(j_common_ptr info, int level);
  static bool IsEarlyEnd(j_common_ptr info);
  static boolean OnSourceEmpty(j_decompress_ptr info);
  static void OnSkip(j_decompress_ptr info, long count);

  std::span<const uint8_t> file_;
  Codes codes_ = Codes::kLibrary;
  jpeg_decompress_struct info_{};
  ErrorManager error_{};
  SourceManager source_{};
  ProgressMonitor progress_{};
  std::unique_ptr<EntropyDecoder> entropy_;
  CheckedScans checked_scans_;
  std::unique_ptr<SequentialDecoder> sequential_;  // in place of all of the library but the headers
  unsigned mcu_rows_read_ = 0;                     // by `sequential_`
};

// How the components of a file are sampled, for a session whose output size is settled.

// The upsampling that libjpeg-turbo would do itself. Nothing where endcap cannot do the same: other
// colors and samplings, and planes that are too small for the library's filter.
std::optional<ChromaUpsampling> GetUpsampling(const jpeg_decompress_struct& info);

// Whether the first component is the image's luma at full size, so that it alone is the gray image.
bool HasFullLuma(const jpeg_decompress_struct& info);

// What the decoder writes of one component.
struct PlaneSize {
  int width = 0;  // samples of the component
  int height = 0;
  int padded_width = 0;  // samples that a row takes: whole MCUs
  int mcu_rows = 0;      // rows that one row of MCUs gives
};

PlaneSize GetPlaneSize(const jpeg_decompress_struct& info, int component);

// Image rows that one row of MCUs gives.
inline int ImageRowsPerMcu(const jpeg_decompress_struct& info) {
  return info.max_v_samp_factor * MinScaledBlockSize(info);
}

}  // namespace endcap
