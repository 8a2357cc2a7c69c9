#include <gtest/gtest.h>

#include "decode/planes.h"
#include "error_matchers.h"

namespace endcap {
namespace {

using testing::Throws;

constexpr JpegFileKind kBaseline{.has_planes = true, .one_scan = true, .ended = true};
constexpr JpegFileKind kProgressive{.has_planes = true, .one_scan = false, .ended = true};
constexpr JpegFileKind kCutShort{.has_planes = true, .one_scan = true, .ended = false};
constexpr JpegFileKind kCmyk{.has_planes = false, .one_scan = true, .ended = true};

constexpr auto kExact = DecodeMode::kExact;
constexpr auto kFast = DecodeMode::kFast;
constexpr auto kAuto = JpegDecoder::kAuto;
constexpr auto kCpu = JpegDecoder::kCpu;
constexpr auto kHybrid = JpegDecoder::kHybrid;
constexpr auto kNvjpeg = JpegDecoder::kNvjpeg;

constexpr int64_t kLarge = kNvjpegCrossoverPixels;

struct Row {
  DecodeMode mode;
  JpegDecoder requested;
  bool available;
  int batch_size;
  int64_t pixels;
  JpegFileKind file;
  JpegDecoder chosen;
};

TEST(ChooseJpegDecoder, FollowsTheTable) {
  const Row rows[] = {
      // By name.
      {kExact, kCpu, true, 64, kLarge, kBaseline, kCpu},
      {kFast, kCpu, true, 64, kLarge, kBaseline, kCpu},
      {kExact, kHybrid, true, 64, kLarge, kBaseline, kHybrid},
      {kFast, kHybrid, true, 64, kLarge, kBaseline, kHybrid},
      {kFast, kHybrid, true, 64, kLarge, kProgressive, kHybrid},
      {kFast, kHybrid, true, 64, kLarge, kCmyk, kCpu},
      {kFast, kNvjpeg, true, 1, 1, kBaseline, kNvjpeg},
      {kFast, kNvjpeg, true, 1, 1, kProgressive, kNvjpeg},
      // Exact pixels never come from nvJPEG.
      {kExact, kAuto, true, 64, kLarge, kBaseline, kHybrid},
      {kExact, kAuto, true, 64, kLarge, kCmyk, kCpu},
      // Fast ones do, for whole files of one scan, where there is enough to do.
      {kFast, kAuto, true, 1, kLarge, kBaseline, kNvjpeg},
      {kFast, kAuto, true, 1, kLarge - 1, kBaseline, kHybrid},
      {kFast, kAuto, true, 8, kLarge / 8, kBaseline, kNvjpeg},
      {kFast, kAuto, true, 7, kLarge / 8, kBaseline, kHybrid},
      {kFast, kAuto, false, 64, kLarge, kBaseline, kHybrid},
      {kFast, kAuto, true, 64, kLarge, kProgressive, kHybrid},
      {kFast, kAuto, true, 64, kLarge, kCutShort, kHybrid},
      {kFast, kAuto, true, 64, kLarge, kCmyk, kCpu},
      {kFast, kAuto, true, 4096, 65500 * int64_t{65500}, kBaseline, kNvjpeg},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(ChooseJpegDecoder(
                  {row.mode, row.requested, row.available, row.batch_size, row.pixels, row.file}),
              row.chosen)
        << "row " << &row - rows;
  }
}

TEST(ChooseJpegDecoder, SaysWhatNvjpegByNameCannotTake) {
  const auto choose = [](const JpegFileKind& file) {
    return [&file] { ChooseJpegDecoder({kFast, kNvjpeg, true, 1, 1, file}); };
  };
  EXPECT_TRUE(Throws(ErrorCode::kUnsupported, "color", choose(kCmyk)));
  EXPECT_TRUE(Throws(ErrorCode::kCorruptImage, "end marker", choose(kCutShort)));
}

TEST(CheckJpegDecoder, RefusesWhatNoFileMakesPossible) {
  EXPECT_TRUE(Throws(ErrorCode::kInvalidArgument, "exact",
                     [] { CheckJpegDecoder(kExact, kNvjpeg, true, ""); }));
  EXPECT_TRUE(Throws(ErrorCode::kCuda, "it is not there",
                     [] { CheckJpegDecoder(kFast, kNvjpeg, false, "it is not there"); }));
  for (const JpegDecoder requested : {kAuto, kCpu, kHybrid}) {
    for (const DecodeMode mode : {kExact, kFast}) CheckJpegDecoder(mode, requested, false, "");
  }
  CheckJpegDecoder(kFast, kNvjpeg, true, "");
}

TEST(EndsWithEndMarker, LooksAtTheLastBytes) {
  const uint8_t bytes[] = {0xFF, 0xD9, 0x00};
  EXPECT_TRUE(EndsWithEndMarker(bytes, 2));
  EXPECT_FALSE(EndsWithEndMarker(bytes, 3));
  EXPECT_FALSE(EndsWithEndMarker(bytes + 1, 1));
  EXPECT_FALSE(EndsWithEndMarker(nullptr, 0));
}

}  // namespace
}  // namespace endcap
