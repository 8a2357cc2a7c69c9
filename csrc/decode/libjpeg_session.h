#pragma once

#include <csetjmp>
#include <cstdint>
// clang-format off
#include <cstdio>  // jpeglib.h uses FILE and size_t without including what declares them
#include <jpeglib.h>
// clang-format on

#include <cstddef>
#include <span>
#include <string>

#include "decode/group_transform.h"
#include "decode/jpeg_frame.h"
#include "endcap/decode.h"

namespace endcap {

// One libjpeg-turbo decompression, from header to last row. Errors of the library become
// kCorruptImage; so do its warnings of lost image data, which it would conceal by
// making up pixels. Harmless ones (stray bytes between segments, a missing end marker) pass, and
// with Truncated::kAccept those that come of image data that ends early. With Damaged::kAccept all
// pass, and the library is called as by one who asks for nothing special: also its faster decoder,
// which leaves some damage to chance, makes the pixels that others see.
class LibjpegSession {
 public:
  // Of the options, only those about truncated and damaged files matter.
  LibjpegSession(std::span<const uint8_t> file, const DecodeOptions& options);
  ~LibjpegSession();
  LibjpegSession(const LibjpegSession&) = delete;
  LibjpegSession& operator=(const LibjpegSession&) = delete;

  const jpeg_decompress_struct& info() const noexcept { return info_; }
  // See DecodeReport. After the last row that is read.
  std::string damage() const { return error_.data_lost ? error_.message : ""; }

  // Throws kCorruptImage where the file is not the one that `expected` was read of: limits were
  // checked on that, and memory that another thread writes to meanwhile must not get past them.
  void ReadHeader(const ImageHeader& expected);
  // Sets output color space and DCT scale; afterwards the sizes in info() are settled.
  void SetOutput(J_COLOR_SPACE color, int eighths);
  // Leaves out the components after the first when planes are read: their samples are not computed.
  // Between ReadHeader and Start.
  void TakeFirstComponentOnly() noexcept;
  // Whether planes have the sizes of this frame. After SetOutput.
  bool HasFrame(const JpegFrame& frame) const noexcept;
  // Starts; for ReadPlanes where `raw`, else for ReadRow. A multi-scan file is read whole here.
  void Start(bool raw);
  // Reads the next row. Throws when the data is damaged up to there.
  void ReadRow(uint8_t* row);
  // Skips `count` rows, without the last of the image: their entropy coding is read, no more.
  // Throws as ReadRow.
  void SkipRows(int count);
  // Reads one row of MCUs, `rows` rows of the image at full size, as its components' samples.
  // planes: null to read the entropy coding and write no sample.
  void ReadPlanes(const PlaneRows* planes, int rows);

  // After the last row before `end_row` was read. Throws kCorruptImage for a truncated file that
  // shows no damage, because what follows the image data was decoded in the place of the missing
  // rest: where that row is in the last row of MCUs, a file of one scan without an end marker must
  // not end in zeros, nor have bytes that no MCU needs but 0xFF, which fills up. `header`, as for
  // ReadHeader. With Damaged::kAccept that is noted as damage.
  void CheckEnd(const ImageHeader& header, int end_row);

 private:
  struct ErrorManager {
    jpeg_error_mgr base;
    std::jmp_buf escape;
    char message[JMSG_LENGTH_MAX];
    bool data_lost;
    bool accepts_end;     // image data that ends early is not lost data
    bool has_ended;       // and it did
    bool accepts_damage;  // lost data is noted and does not matter
  };
  struct SourceManager {
    jpeg_source_mgr base;
    std::span<const uint8_t> rest;  // behind what the library was given
    bool past_end;
  };

  struct ProgressMonitor {
    jpeg_progress_mgr base;
    int scan_count;  // of the header
  };

  template <typename Call>
  void Guarded(Call call);
  void ThrowIfDataLost() const;
  void NoteDamage(const char* what) noexcept;
  void CheckWhatFollows(const ImageHeader& header) const;
  void LeaveOutCutSegment();
  bool HasEndMarker() const noexcept;
  void NeedComponents(int count) noexcept;

  static void OnProgress(j_common_ptr info);
  static void OnError(j_common_ptr info);
  static void OnMessage(j_common_ptr info, int level);
  static bool IsEarlyEnd(j_common_ptr info);
  static void GiveNextPart(SourceManager& source) noexcept;
  static boolean OnSourceEmpty(j_decompress_ptr info);
  static void OnSkip(j_decompress_ptr info, long count);

  std::span<const uint8_t> file_;
  jpeg_decompress_struct info_{};
  int needed_components_ = MAX_COMPONENTS;
  ErrorManager error_{};
  SourceManager source_{};
  ProgressMonitor progress_{};
};

// For files of one scan without an end marker. Throws kCorruptImage.
void CheckZerosAtEnd(std::span<const uint8_t> file);
[[noreturn]] void FailUnreadBytes();

}  // namespace endcap
