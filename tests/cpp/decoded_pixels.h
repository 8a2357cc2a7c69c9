#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "endcap/decode.h"
#include "endcap/error.h"
#include "jpeg_writer.h"
#include "simd_targets.h"

// Pixels of whole files: decode_simd on every target of this machine against libjpeg-turbo, which
// is decode_scalar.

namespace endcap::testing {

// The first three channels of each pixel, or the message of the error.
inline std::string DecodeOrError(const Bytes& file, const DecodeOptions& options = {}) {
  try {
    const PixelBuffer image = Decode(Encoded(file), {}, options, true);
    if (options.channels != 4) return {image.pixels.begin(), image.pixels.end()};
    std::string colors;
    for (size_t i = 0; i < image.pixels.size(); ++i) {
      if (i % 4 != 3) colors.push_back(static_cast<char>(image.pixels[i]));
    }
    return colors;
  } catch (const Error& error) {
    return error.what();
  }
}

// At all scales.
inline void ExpectTargetsEqual(const Bytes& file, const std::string& what,
                               std::initializer_list<int> all_channels = {3}) {
  for (const int channels : all_channels) {
    for (int eighths = 1; eighths <= 8; ++eighths) {
      CompareTargetsWithScalar(
          Stage::kDecode, [&] { return DecodeOrError(file, {channels, eighths}); },
          [&](const std::string& expected, const std::string& actual, const std::string& target) {
            EXPECT_TRUE(actual == expected)
                << what << ", " << channels << " channels, " << eighths << "/8, " << target;
          });
    }
  }
}

}  // namespace endcap::testing
