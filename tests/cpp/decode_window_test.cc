// A window of an image against the same pixels of the whole one, on each implementation: rows above
// it are skipped by the decoder, rows below it never reached.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "endcap/decode.h"
#include "endcap/implementation.h"
#include "error_matchers.h"
#include "jpeg_writer.h"

namespace endcap {
namespace {

using testing::Bytes;
using testing::Encoded;
using testing::JpegOptions;
using testing::MakeJpeg;
using testing::Throws;

// Ends what a test forced.
class DecodeWindowTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { ForceImplementation(GetParam()); }
  void TearDown() override { ForceImplementation("auto"); }
};

PixelBuffer Window(const Bytes& file, const DecodeOptions& options, const PixelRect& window) {
  const ImageHeader header = ReadHeader(Encoded(file), {});
  DecodeReport report;
  return DecodeWindow(Encoded(file), header, options, header.orientation, window, report);
}

bool SamePixels(const PixelBuffer& part, const PixelBuffer& whole, const PixelRect& window) {
  if (part.format.width != window.width || part.format.height != window.height) return false;
  const int channels = whole.format.channels;
  const int compared = channels == 4 ? 3 : channels;  // the fourth byte means nothing
  const auto at = [channels](const PixelBuffer& image, int x, int y) {
    return image.pixels.data() + (ptrdiff_t{y} * image.format.width + x) * channels;
  };
  for (int y = 0; y < window.height; ++y) {
    for (int x = 0; x < window.width; ++x) {
      const uint8_t* pixel = at(whole, window.x + x, window.y + y);
      if (!std::equal(pixel, pixel + compared, at(part, x, y))) return false;
    }
  }
  return true;
}

void ExpectWindows(const Bytes& file, const DecodeOptions& options, const std::string& what) {
  const PixelBuffer whole = Decode(Encoded(file), {}, options, /*apply_orientation=*/true);
  const auto [width, height, channels] = whole.format;
  for (int y = 0; y < height; ++y) {
    for (const int rows : {1, 2, 17}) {
      if (y + rows > height) continue;
      const PixelRect window{y % width, y, 1 + (width - 1 - y % width) / 2, rows};
      EXPECT_TRUE(SamePixels(Window(file, options, window), whole, window))
          << what << ", channels " << channels << ", rows " << y << " to " << y + rows;
    }
  }
}

TEST_P(DecodeWindowTest, EverySamplingFromEveryRow) {
  for (const int columns : {1, 2, 4}) {
    for (const int rows : {1, 2}) {
      for (const bool progressive : {false, true}) {
        JpegOptions jpeg;
        jpeg.luma_columns = columns;
        jpeg.luma_rows = rows;
        jpeg.progressive = progressive;
        const std::string what = "luma " + std::to_string(columns) + "x" + std::to_string(rows) +
                                 (progressive ? " progressive" : "");
        ExpectWindows(MakeJpeg(71, 37, 3, jpeg), {}, what);
      }
    }
  }
}

TEST_P(DecodeWindowTest, EveryColorAndNumberOfChannels) {
  for (const int stored : {1, 3, 4}) {
    for (const int channels : {1, 3, 4}) {
      ExpectWindows(MakeJpeg(53, 29, stored), {.channels = channels},
                    "stored " + std::to_string(stored));
    }
  }
}

TEST_P(DecodeWindowTest, ScansApartAndRestartMarkers) {
  JpegOptions jpeg;
  jpeg.separate_scans = true;
  ExpectWindows(MakeJpeg(67, 40, 3, jpeg), {}, "separate scans");
  jpeg.separate_scans = false;
  jpeg.restart_rows = 1;
  ExpectWindows(MakeJpeg(67, 40, 3, jpeg), {}, "restart markers");
}

TEST_P(DecodeWindowTest, EveryOrientationAndScale) {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    JpegOptions jpeg;
    jpeg.orientation = orientation;
    for (int eighths = 1; eighths <= 8; ++eighths) {
      ExpectWindows(
          MakeJpeg(90, 61, 3, jpeg), {3, eighths},
          "orientation " + std::to_string(orientation) + " at " + std::to_string(eighths) + "/8");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, DecodeWindowTest, ::testing::Values("scalar", "simd"));

}  // namespace
}  // namespace endcap
