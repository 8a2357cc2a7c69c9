// Pixels of planes: every color and sampling against libjpeg-turbo, which is the scalar
// implementation, on every target of this machine.

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <vector>

#include "decode/plane_decoder.h"
#include "decoded_pixels.h"
#include "endcap/decode.h"
#include "jpeg_writer.h"

namespace endcap {
namespace {

using testing::Bytes;
using testing::DecodeOrError;
using testing::Encoded;
using testing::ExpectTargetsEqual;
using testing::JpegOptions;
using testing::MakeJpeg;

std::string Describe(const std::vector<std::array<int, 2>>& sampling) {
  std::string text;
  for (const auto& [columns, rows] : sampling) {
    text += " " + std::to_string(columns) + "x" + std::to_string(rows);
  }
  return text;
}

// Sampling factors that an MCU has room for. Some are no multiples of each other.
std::vector<std::array<int, 2>> RandomSampling(size_t components, std::mt19937& random) {
  for (;;) {
    std::vector<std::array<int, 2>> sampling;
    int blocks = 0;
    for (size_t i = 0; i < components; ++i) {
      sampling.push_back({1 + static_cast<int>(random() % 4), 1 + static_cast<int>(random() % 4)});
      blocks += sampling.back()[0] * sampling.back()[1];
    }
    if (blocks <= 10) return sampling;
  }
}

// What the encoder can make: it does not enlarge components by fractions.
bool HasMultiples(const std::vector<std::array<int, 2>>& sampling) {
  std::array<int, 2> most{1, 1};
  for (const auto& each : sampling) {
    for (size_t axis : {0, 1}) most[axis] = std::max(most[axis], each[axis]);
  }
  for (const auto& each : sampling) {
    for (size_t axis : {0, 1}) {
      if (most[axis] % each[axis] != 0) return false;
    }
  }
  return true;
}

struct Color {
  const char* name;
  int channels;
  JpegOptions options;
};

std::vector<Color> Colors() {
  std::vector<Color> colors = {{"YCbCr", 3, {}}, {"RGB", 3, {}}, {"CMYK", 4, {}}, {"YCCK", 4, {}}};
  colors[1].options.as_rgb = true;
  colors[3].options.as_ycck = true;
  return colors;
}

TEST(PlaneBands, GiveTheLibrarysPixelsOfAnyColorAndSampling) {
  std::mt19937 random(12);
  for (const Color& color : Colors()) {
    int files = 0;
    while (files < 40) {
      JpegOptions options = color.options;
      options.sampling = RandomSampling(static_cast<size_t>(color.channels), random);
      if (!HasMultiples(options.sampling)) continue;
      options.progressive = files % 4 == 0;
      const int height = 1 + static_cast<int>(random() % 70);
      const int width = 1 + static_cast<int>(random() % 90);
      const Bytes file = MakeJpeg(height, width, color.channels, options);
      const ImageHeader header = ReadHeader(Encoded(file), {});
      PlaneDecoder decoder(file, header, {});
      ASSERT_TRUE(decoder.has_pixels());
      decoder.Start();
      EXPECT_NE(decoder.decoder(), PlaneDecoder::Decoder::kLibjpegTurbo);
      ExpectTargetsEqual(file,
                         std::string(color.name) + Describe(options.sampling) + ", " +
                             std::to_string(width) + "x" + std::to_string(height),
                         {3, 4, 1});
      ++files;
    }
  }
}

// One column of a component is three halves of another's.
TEST(PlaneBands, LeaveFractionsToTheLibrarysError) {
  Bytes file = MakeJpeg(40, 60, 3);
  const size_t frame = testing::FindFrame(file);
  file[frame + 11] = 0x31;
  file[frame + 14] = 0x21;
  const PlaneDecoder decoder(file, ReadHeader(Encoded(file), {}), {});
  EXPECT_FALSE(decoder.has_pixels());
  EXPECT_NE(DecodeOrError(file, {}).find("Fractional sampling"), std::string::npos);
  ExpectTargetsEqual(file, "fractions", {3, 4, 1});
}

}  // namespace
}  // namespace endcap
