#pragma once

// clang-format off
#include <cstdio>  // jpeglib.h uses FILE without including what declares it
#include <jpeglib.h>
// clang-format on

#include <csetjmp>
#include <cstdint>
#include <span>
#include <vector>

namespace endcap::testing {

// What libjpeg-turbo makes of a file for a caller who asks for nothing special.
struct PlainJpeg {
  int width = 0;
  int height = 0;
  std::vector<uint8_t> pixels;  // empty where the library gives up
};

// channels: 1, gray, or 3, RGB. careful: never by the library's faster decoder, which is for data
// without restart markers and checks less.
inline PlainJpeg DecodePlainly(std::span<const uint8_t> file, int channels, int eighths,
                               bool careful = false) {
  struct Escape {
    jpeg_error_mgr base;
    std::jmp_buf place;
  };
  PlainJpeg image;
  jpeg_decompress_struct info{};
  Escape escape{};
  info.err = jpeg_std_error(&escape.base);
  escape.base.error_exit = [](j_common_ptr failed) {
    std::longjmp(reinterpret_cast<Escape*>(failed->err)->place, 1);
  };
  escape.base.emit_message = [](j_common_ptr, int) {};
  volatile bool done = false;  // written between setjmp and longjmp
  if (setjmp(escape.place) == 0) {
    jpeg_create_decompress(&info);
    jpeg_mem_src(&info, file.data(), static_cast<unsigned long>(file.size()));
    jpeg_read_header(&info, TRUE);
    info.out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    info.scale_num = static_cast<unsigned>(eighths);
    info.scale_denom = 8;
    if (careful && info.restart_interval == 0) info.restart_interval = 1U << 31;
    jpeg_start_decompress(&info);
    image.width = static_cast<int>(info.output_width);
    image.height = static_cast<int>(info.output_height);
    const size_t row_bytes = size_t{info.output_width} * static_cast<size_t>(channels);
    image.pixels.resize(row_bytes * info.output_height);
    while (info.output_scanline < info.output_height) {
      JSAMPROW row = image.pixels.data() + row_bytes * info.output_scanline;
      jpeg_read_scanlines(&info, &row, 1);
    }
    done = true;
  }
  jpeg_destroy_decompress(&info);
  if (!done) image.pixels.clear();
  return image;
}

}  // namespace endcap::testing
