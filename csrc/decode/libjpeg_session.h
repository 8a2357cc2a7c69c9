#pragma once

#include <csetjmp>
#include <cstddef>
#include <cstdint>
// clang-format off
#include <cstdio>  // jpeglib.h uses FILE and size_t without including what declares them
#include <jpeglib.h>
// clang-format on

namespace endcap {

// One libjpeg-turbo decompression, from header to last row. Errors of the library become
// kCorruptImage; so do its warnings that stand for lost image data, which it would conceal by
// making up pixels. Harmless ones (stray bytes between segments, a missing end marker) pass.
class LibjpegSession {
 public:
  LibjpegSession(const uint8_t* bytes, size_t size);
  ~LibjpegSession();
  LibjpegSession(const LibjpegSession&) = delete;
  LibjpegSession& operator=(const LibjpegSession&) = delete;

  const jpeg_decompress_struct& info() const noexcept { return info_; }

  void ReadHeader();
  // Sets output color space and DCT scale, then starts. A multi-scan file is read whole here.
  void Start(J_COLOR_SPACE color, int scale_denominator);
  // Reads up to `capacity` rows; at least one. Throws when the data is damaged up to there.
  int ReadRows(JSAMPROW* rows, int capacity);

 private:
  struct ErrorManager {
    jpeg_error_mgr base;
    std::jmp_buf escape;
    char message[JMSG_LENGTH_MAX];
    bool data_lost;
  };
  struct SourceManager {
    jpeg_source_mgr base;
    bool past_end;
  };

  template <typename Call>
  void Guarded(Call call);
  void ThrowIfDataLost() const;

  static void OnError(j_common_ptr info);
  static void OnMessage(j_common_ptr info, int level);
  static boolean OnSourceEmpty(j_decompress_ptr info);
  static void OnSkip(j_decompress_ptr info, long count);

  jpeg_decompress_struct info_{};
  ErrorManager error_{};
  SourceManager source_{};
};

}  // namespace endcap
