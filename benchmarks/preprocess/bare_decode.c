/* The floor: libjpeg-turbo with its default settings, every row decoded to RGB (or gray) into one
 * strip that is used again. No tensor, no resizing.
 *
 * Compiled when the benchmark runs, and linked with the libjpeg-turbo that endcap brings along. */

// clang-format off: jpeglib.h needs what stdio.h declares, and does not include it
#include <stdio.h>
#include <jpeglib.h>
// clang-format on
#include <setjmp.h>
#include <stddef.h>
#include <stdlib.h>

struct guard {
  struct jpeg_error_mgr manager; /* first, so that libjpeg's pointer is also ours */
  jmp_buf failed;
};

static void leave(j_common_ptr info) {
  struct guard* guard = (struct guard*)info->err;
  longjmp(guard->failed, 1);
}

static void say_nothing(j_common_ptr info) { (void)info; }

/* Decodes `bytes` bytes of a JPEG file; returns the number of rows, 0 where it cannot be read. */
int bare_decode(const unsigned char* data, unsigned long bytes) {
  struct jpeg_decompress_struct info;
  struct guard guard;
  unsigned char* volatile strip = NULL;
  volatile int rows = 0;
  info.err = jpeg_std_error(&guard.manager);
  guard.manager.error_exit = leave;
  guard.manager.output_message = say_nothing;
  jpeg_create_decompress(&info);
  if (setjmp(guard.failed) == 0) {
    jpeg_mem_src(&info, data, bytes);
    jpeg_read_header(&info, TRUE);
    jpeg_start_decompress(&info);
    const size_t stride = (size_t)info.output_width * (size_t)info.output_components;
    const int strip_rows = info.rec_outbuf_height;
    strip = malloc(stride * (size_t)strip_rows);
    JSAMPROW pointers[8];
    for (int row = 0; row < strip_rows && row < 8; ++row) {
      pointers[row] = strip + stride * (size_t)row;
    }
    while (info.output_scanline < info.output_height) {
      jpeg_read_scanlines(&info, pointers, (JDIMENSION)(strip_rows < 8 ? strip_rows : 8));
    }
    rows = (int)info.output_scanline;
    jpeg_finish_decompress(&info);
  } else {
    rows = 0;
  }
  jpeg_destroy_decompress(&info);
  free(strip);
  return rows;
}
