#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "decode/libjpeg_session.h"
#include "decode/plane_decoder.h"
#include "endcap/error.h"
#include "jpeg_writer.h"

// Decodes files to planes with libjpeg-turbo and with endcap's decoders.

namespace endcap::testing {

// The samples of a file's planes, or the message of its error.
struct Outcome {
  Bytes samples;
  std::string error;
  PlaneDecoder::Decoder decoder = PlaneDecoder::Decoder::kLibjpegTurbo;
};

enum class By { kLibrary, kEndcap };

// Memory for the planes of a whole image.
class PlaneMemory {
 public:
  explicit PlaneMemory(const JpegFrame& frame) : frame_(frame) {
    for (size_t i = 0; i < frame.component_count; ++i) {
      const JpegComponent& component = frame.components[i];
      const auto rows = static_cast<size_t>(frame.mcu_rows * component.rows_per_mcu());
      const auto width = static_cast<size_t>(frame.padded_width(component));
      samples_.emplace_back(rows * width);
    }
  }

  PlaneRows At(int mcu_row) {
    PlaneRows planes;
    for (size_t i = 0; i < samples_.size(); ++i) {
      const JpegComponent& component = frame_.components[i];
      const auto stride = static_cast<size_t>(frame_.padded_width(component));
      const auto first = static_cast<size_t>(mcu_row * component.rows_per_mcu());
      planes[i] = {samples_[i].data() + first * stride, stride};
    }
    return planes;
  }

  // What is in the image.
  Bytes Samples() const {
    Bytes all;
    for (size_t i = 0; i < samples_.size(); ++i) {
      const JpegComponent& component = frame_.components[i];
      for (int y = 0; y < component.height; ++y) {
        const uint8_t* row = samples_[i].data() + ptrdiff_t{y} * frame_.padded_width(component);
        all.insert(all.end(), row, row + component.width);
      }
    }
    return all;
  }

 private:
  const JpegFrame& frame_;
  std::vector<Bytes> samples_;
};

inline Outcome Decode(const Bytes& file, By by, int eighths = 8) {
  Outcome outcome;
  try {
    const ImageHeader header = ReadHeader(Encoded(file), {});
    PlaneDecoder decoder(file, header, {3, eighths});
    const JpegFrame& frame = decoder.frame();
    PlaneMemory memory(frame);
    LibjpegSession session(file, {});
    if (by == By::kLibrary) {
      session.ReadHeader(header);
      session.SetOutput(session.info().jpeg_color_space, eighths);
      EXPECT_TRUE(session.HasFrame(frame));
      session.Start(/*raw=*/true);
    } else {
      decoder.Start();
      outcome.decoder = decoder.decoder();
    }
    for (int mcu_row = 0; mcu_row < frame.mcu_rows; ++mcu_row) {
      const PlaneRows rows = memory.At(mcu_row);
      if (by == By::kLibrary) {
        session.ReadPlanes(&rows, frame.rows_per_mcu());
      } else {
        decoder.ReadMcuRow(&rows);
      }
    }
    outcome.samples = memory.Samples();
  } catch (const Error& error) {
    outcome.error = error.what();
  }
  return outcome;
}

inline void ExpectEqual(const Bytes& file, const std::string& what, int eighths = 8) {
  const Outcome expected = Decode(file, By::kLibrary, eighths);
  const Outcome actual = Decode(file, By::kEndcap, eighths);
  EXPECT_EQ(actual.error, expected.error) << what;
  EXPECT_TRUE(actual.samples == expected.samples) << what;
}

// The kinds of files that differ in their scans.
struct Kind {
  const char* name;
  JpegOptions options;
};

inline std::vector<Kind> Kinds() {
  std::vector<Kind> kinds(4);
  kinds[0].name = "one scan";
  kinds[1] = {"separate scans", {}};
  kinds[1].options.separate_scans = true;
  kinds[2] = {"progressive", {}};
  kinds[2].options.progressive = true;
  kinds[3] = {"progressive bit by bit", {}};
  kinds[3].options.bit_by_bit = true;
  return kinds;
}

}  // namespace endcap::testing
