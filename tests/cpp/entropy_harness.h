#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "decode/libjpeg_session.h"
#include "endcap/error.h"
#include "jpeg_writer.h"

// Decodes files with libjpeg-turbo's reading of the Huffman codes and with ours.

namespace endcap::testing {

// A file's rows in its own color space, or the message of its error. `skip`: that many rows first.
struct Outcome {
  Bytes rows;
  std::string error;
  bool taken_over = false;
};

enum class By { kLibrary, kUs };

inline Outcome Decode(const Bytes& file, By by, int denominator = 1, int skip = 0) {
  Outcome outcome;
  try {
    const ImageHeader header = ReadHeader(Encoded(file), {});
    LibjpegSession session(file, Truncated::kReject);
    session.ReadHeader(header);
    session.SetOutput(session.info().jpeg_color_space, denominator);
    using Codes = LibjpegSession::Codes;
    session.Start(/*raw=*/false, by == By::kUs ? Codes::kEndcap : Codes::kLibrary);
    const jpeg_decompress_struct& info = session.info();
    outcome.taken_over = info.client_data != nullptr;
    if (skip > 0) session.SkipRows(skip);
    Bytes row(size_t{info.output_width} * static_cast<size_t>(info.output_components));
    while (info.output_scanline < info.output_height) {
      JSAMPROW rows = row.data();
      session.ReadRows(&rows, 1);
      outcome.rows.insert(outcome.rows.end(), row.begin(), row.end());
    }
  } catch (const Error& error) {
    outcome.error = error.what();
  }
  return outcome;
}

inline void ExpectEqual(const Bytes& file, const std::string& what, int denominator = 1,
                        int skip = 0) {
  const Outcome expected = Decode(file, By::kLibrary, denominator, skip);
  const Outcome actual = Decode(file, By::kUs, denominator, skip);
  EXPECT_EQ(actual.error, expected.error) << what;
  EXPECT_TRUE(actual.rows == expected.rows) << what;
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
