#include "jpeg_writer.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

// After <cstdio>, because jpeglib.h needs FILE.
#include "jpeglib.h"

namespace endcap::testing {
namespace {

J_COLOR_SPACE InputColor(int channels) {
  if (channels == 1) return JCS_GRAYSCALE;
  return channels == 3 ? JCS_RGB : JCS_CMYK;
}

// An APP1 payload with one entry in IFD0: the orientation.
Bytes ExifPayload(int orientation) {
  const auto value = static_cast<uint8_t>(orientation);
  return {'E', 'x',  'i', 'f', 0, 0, 'M', 'M', 0, 42,    0, 0, 0, 8, 0, 1,
          1,   0x12, 0,   3,   0, 0, 0,   1,   0, value, 0, 0, 0, 0, 0, 0};
}

// Where they are to be others than the library's.
std::vector<jpeg_scan_info> Scans(int channels, const JpegOptions& options) {
  std::vector<jpeg_scan_info> scans;
  const auto add = [&](int first, int last, int high, int low) {
    for (int c = 0; c < channels; ++c) scans.push_back({1, {c}, first, last, high, low});
  };
  if (options.separate_scans) add(0, 63, 0, 0);
  if (options.bit_by_bit) {
    scans.push_back({channels, {0, 1, 2, 3}, 0, 0, 0, 2});
    add(1, 2, 0, 3);
    add(3, 9, 0, 3);
    add(10, 63, 0, 3);
    for (const int low : {2, 1, 0}) {
      add(1, 63, low + 1, low);
      if (low < 2) scans.push_back({channels, {0, 1, 2, 3}, 0, 0, low + 1, low});
    }
  }
  return scans;
}

}  // namespace

Bytes MakePixels(int height, int width, int channels) {
  Bytes pixels;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        const double shade = 128 + 90 * std::sin(0.11 * x + 0.07 * y + c);
        const bool edge = (x / 11 + y / 7) % 3 == 0;
        pixels.push_back(static_cast<uint8_t>(edge ? 255 - shade : shade));
      }
    }
  }
  return pixels;
}

Bytes WriteJpeg(const Bytes& pixels, int height, int width, int channels,
                const JpegOptions& options) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &buffer, &size);
  info.image_height = static_cast<JDIMENSION>(height);
  info.image_width = static_cast<JDIMENSION>(width);
  info.input_components = channels;
  info.in_color_space = InputColor(channels);
  jpeg_set_defaults(&info);
  if (options.as_rgb) jpeg_set_colorspace(&info, JCS_RGB);
  if (options.as_ycck) jpeg_set_colorspace(&info, JCS_YCCK);
  jpeg_set_quality(&info, options.quality, TRUE);
  if (channels == 3 && !options.as_rgb) {
    info.comp_info[0].h_samp_factor = options.luma_columns;
    info.comp_info[0].v_samp_factor = options.luma_rows;
  }
  for (size_t i = 0; i < options.sampling.size(); ++i) {
    info.comp_info[i].h_samp_factor = options.sampling[i][0];
    info.comp_info[i].v_samp_factor = options.sampling[i][1];
  }
  info.restart_in_rows = options.restart_rows;
  info.restart_interval = static_cast<unsigned>(options.restart_mcus);
  info.optimize_coding = options.optimized ? TRUE : FALSE;
  if (options.progressive) jpeg_simple_progression(&info);
  const std::vector<jpeg_scan_info> scans = Scans(channels, options);
  if (!scans.empty()) {
    info.scan_info = scans.data();
    info.num_scans = static_cast<int>(scans.size());
  }
  jpeg_start_compress(&info, TRUE);
  if (options.orientation != 0) {
    const Bytes exif = ExifPayload(options.orientation);
    jpeg_write_marker(&info, JPEG_APP0 + 1, exif.data(), static_cast<unsigned>(exif.size()));
  }
  const size_t row_bytes = static_cast<size_t>(width) * static_cast<size_t>(channels);
  while (info.next_scanline < info.image_height) {
    auto* row = const_cast<JSAMPLE*>(pixels.data() + info.next_scanline * row_bytes);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  Bytes file(buffer, buffer + size);
  std::free(buffer);
  return file;
}

Bytes MakeJpeg(int height, int width, int channels, const JpegOptions& options) {
  return WriteJpeg(MakePixels(height, width, channels), height, width, channels, options);
}

size_t FindFrame(const Bytes& jpeg) {
  size_t position = 2;
  while (jpeg.at(position + 1) < 0xC0 || jpeg.at(position + 1) > 0xC2) {
    position += 2U + jpeg.at(position + 2) * 256U + jpeg.at(position + 3);
  }
  return position;
}

Bytes WithSize(Bytes jpeg, int height, int width) {
  const size_t frame = FindFrame(jpeg);
  jpeg[frame + 5] = static_cast<uint8_t>(height >> 8);
  jpeg[frame + 6] = static_cast<uint8_t>(height & 255);
  jpeg[frame + 7] = static_cast<uint8_t>(width >> 8);
  jpeg[frame + 8] = static_cast<uint8_t>(width & 255);
  return jpeg;
}

}  // namespace endcap::testing
