#include "decode/parallel_scan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "decode/bands.h"
#include "decode/crew.h"
#include "decode/jpeg_markers.h"
#include "decode/sequential_decoder.h"
#include "endcap/decode.h"
#include "endcap/error.h"
#include "endcap/implementation.h"
#include "endcap/preprocess.h"
#include "image_tensor.h"
#include "jpeg_writer.h"
#include "preprocess/help_policy.h"

namespace endcap {
namespace {

using testing::Bytes;
using testing::Encoded;
using testing::JpegOptions;
using testing::Preprocess;
using testing::Results;
using testing::WriteJpeg;

// Jobs that note how often each was done.
class Jobs final : public Crew::Work {
 public:
  explicit Jobs(int count) : done_(static_cast<size_t>(count)) {}

  const std::vector<int>& done() const { return done_; }
  bool AreDone() const { return next_ == static_cast<int>(done_.size()) && busy_ == 0; }
  void Allow(int jobs) { allowed_ = jobs; }

  bool DoJob(Crew::Lock& lock, bool /*is_owner*/) noexcept override {
    if (next_ == std::min(allowed_, static_cast<int>(done_.size()))) return false;
    const auto job = static_cast<size_t>(next_++);
    ++busy_;
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
    --busy_;
    ++done_[job];
    return true;
  }

 private:
  std::vector<int> done_;
  int allowed_ = std::numeric_limits<int>::max();
  int next_ = 0;
  int busy_ = 0;
};

TEST(Crew, DoesEachJobOnce) {
  for (const int helpers : {0, 1, 3}) {
    for (int run = 0; run < 20; ++run) {
      Crew crew(helpers);
      Jobs jobs(200);
      std::vector<std::thread> threads;  // often before Begin
      for (int i = 0; i < helpers; ++i) threads.emplace_back([&] { crew.Help(); });
      crew.Begin(jobs);
      crew.WorkUntil([&] { return jobs.AreDone(); });
      crew.End();
      for (std::thread& thread : threads) thread.join();
      EXPECT_EQ(jobs.done(), std::vector<int>(200, 1));
    }
  }
}

TEST(Crew, AHelperLeavesWhenItIsAskedTo) {
  Crew crew(1);
  Jobs jobs(20);
  crew.Begin(jobs);
  crew.Help([&] { return std::ranges::count(jobs.done(), 1) == 3; });
  EXPECT_EQ(std::ranges::count(jobs.done(), 1), 3);
  crew.WorkUntil([&] { return jobs.AreDone(); });
  crew.End();
}

TEST(Crew, AHelperDoesNoJobBehindTheEnd) {
  Crew crew(1);
  Jobs jobs(20);
  jobs.Allow(7);
  crew.Begin(jobs);
  std::thread helper([&] { crew.Help(); });
  crew.WorkUntil([&] { return std::ranges::count(jobs.done(), 1) == 7; });
  crew.End();
  helper.join();
  jobs.Allow(20);
  crew.Help();
  EXPECT_EQ(std::ranges::count(jobs.done(), 1), 7);
}

TEST(Crew, EndsWithoutABeginning) {
  Crew crew(1);
  std::thread helper([&] { crew.Help(); });
  crew.End();
  helper.join();
  crew.Help();
}

// How many of the images are helped, of which one in 17 is a trial of the other way.
int HelpedOf(HelpPolicy& policy, int images, int64_t ns_with_help, int64_t ns_alone) {
  int helped_count = 0;
  for (int i = 0; i < images; ++i) {
    const bool helped = policy.Allows();
    helped_count += helped ? 1 : 0;
    policy.Report(helped, helped ? ns_with_help : ns_alone, 1000);
  }
  return helped_count;
}

TEST(HelpPolicy, ChoosesWhatTakesLessTime) {
  HelpPolicy gains;
  EXPECT_GE(HelpedOf(gains, 320, 600, 1000), 320 - 24);
  HelpPolicy loses;
  EXPECT_LE(HelpedOf(loses, 320, 1200, 1000), 24);
  EXPECT_GE(HelpedOf(loses, 320, 1200, 1000), 16);  // trials
}

TEST(HelpPolicy, NoticesAChange) {
  HelpPolicy policy;
  HelpedOf(policy, 100, 600, 1000);
  EXPECT_LE(HelpedOf(policy, 320, 1500, 1000), 32);
  EXPECT_GE(HelpedOf(policy, 320, 600, 1000), 240);
}

TEST(HelpPolicy, IsNotMisledByTwoKindsByTurns) {
  for (const int first : {0, 1}) {
    HelpPolicy policy;
    int helped_count = 0;
    for (int i = 0; i < 400; ++i) {
      const bool large = i % 2 == first;
      helped_count += HelpedOf(policy, 1, large ? 30 : 9, large ? 26 : 8);
    }
    EXPECT_LE(helped_count, 100) << first;
  }
}

// The bytes that are decoded, or the message of the error.
class Collector final : public BandSink {
 public:
  void Begin(const BandFormat& format) override { format_ = format; }
  void Consume(const RowBand& band) override {
    pixels_.append(reinterpret_cast<const char*>(band.data),
                   static_cast<size_t>(format_.width) * static_cast<size_t>(format_.channels));
  }
  int EndRow() const override { return format_.height; }
  const std::string& pixels() const { return pixels_; }

 private:
  BandFormat format_;
  std::string pixels_;
};

std::string DecodeWith(Crew* crew, const Bytes& file, const DecodeOptions& options) {
  std::vector<std::thread> threads;
  for (int i = 0; crew != nullptr && i < crew->helpers(); ++i) {
    threads.emplace_back([&] { crew->Help(); });
  }
  std::string result;
  try {
    Collector sink;
    const ImageView image = Encoded(file);
    DecodeToBands(image, ReadHeader(image, {}), options, sink, crew);
    result = sink.pixels();
  } catch (const Error& error) {
    result = error.what();
  }
  if (crew != nullptr) crew->End();
  for (std::thread& thread : threads) thread.join();
  return result;
}

// A picture with noise in its lower half: there the codes are long, above they are few.
Bytes NoisyFile(int height, int width, int channels, const JpegOptions& options) {
  Bytes pixels = testing::MakePixels(height, width, channels);
  std::mt19937 random(5);
  for (size_t i = pixels.size() / 2; i < pixels.size(); ++i) {
    pixels[i] = static_cast<uint8_t>(pixels[i] + random() % 32);
  }
  return WriteJpeg(pixels, height, width, channels, options);
}

std::vector<JpegOptions> Kinds() {
  std::vector<JpegOptions> kinds(7);
  kinds[1].luma_columns = kinds[1].luma_rows = 1;
  kinds[2].restart_rows = 1;
  kinds[3].restart_mcus = 11;
  kinds[4].luma_rows = 1;
  kinds[5].optimized = true;
  kinds[6].quality = 98;
  return kinds;
}

// Two in three, so that the others do not hold the threads up.
TEST(ParallelScan, ReadersThatBeginAnywhereFallIntoStep) {
  const Bytes file = NoisyFile(600, 800, 3, {});
  const JpegMarkers markers = ReadMarkers(file.data(), file.size());
  const JpegFrame frame = MakeFrame(markers, 8);
  SequentialDecoder decoder(file, markers, frame, 3);
  SequentialDecoder another(file, markers, frame, 3);
  const uint8_t* const begin = decoder.data().data().data();
  const uint8_t* const end = begin + decoder.data().data().size() - 2000;
  ScanPiece piece;
  piece.begin = {begin, 0};
  int guesses = 0;
  int right = 0;
  for (const uint8_t* mark = begin + 2000; mark < end; mark += 1000) {
    while (mark[-1] == 0xFF) ++mark;
    decoder.ReadPiece(piece, mark, 10000, 10000);
    ASSERT_TRUE(piece.is_whole);
    ++guesses;
    right += another.Synchronize(mark - 1000, mark) == piece.end ? 1 : 0;
    const ScanPosition next = piece.end;
    piece = {};
    piece.begin = next;
  }
  EXPECT_GE(guesses, 50);
  EXPECT_GE(3 * right, 2 * guesses) << right << " of " << guesses;
}

TEST(ParallelScan, PixelsAreThoseOfOneThread) {
  int jobs_of_helpers = 0;
  for (const JpegOptions& options : Kinds()) {
    // Of the second, a piece is shorter than the longest interval between restart markers.
    for (const auto& [width, channels] : {std::pair{333, 1}, {80, 3}, {333, 3}}) {
      const Bytes file = NoisyFile(203, width, channels, options);
      for (const DecodeOptions& decode :
           {DecodeOptions{4, 8}, DecodeOptions{1, 8}, DecodeOptions{3, 4}, DecodeOptions{3, 1}}) {
        const std::string expected = DecodeWith(nullptr, file, decode);
        for (const size_t segment_bytes : {64, 200, 1000, 5000, 40000}) {
          for (const int helpers : {0, 1, 3}) {
            Crew crew(helpers, segment_bytes);
            EXPECT_TRUE(DecodeWith(&crew, file, decode) == expected)
                << "segments of " << segment_bytes << ", " << helpers << " helpers";
            jobs_of_helpers += crew.jobs_of_helpers();
          }
        }
      }
    }
  }
  EXPECT_GT(jobs_of_helpers, 1000);
}

// Threads do not share it, since a run of 0xFF may be as long as the file.
TEST(ParallelScan, AFileWithSeveralFillBytesIsLeftToOneThread) {
  Bytes file = NoisyFile(203, 333, 3, {});
  const std::string expected = DecodeWith(nullptr, file, {3, 8});
  const size_t middle = file.size() / 2;
  const auto stuffed =
      std::find(file.begin() + static_cast<ptrdiff_t>(middle), file.end(), uint8_t{0xFF});
  file.insert(stuffed, 100000, 0xFF);
  for (const size_t segment_bytes : {64, 1000, 5000}) {
    Crew crew(3, segment_bytes);
    EXPECT_TRUE(DecodeWith(&crew, file, {3, 8}) == expected);
  }
}

TEST(ParallelScan, ErrorsAreThoseOfOneThread) {
  std::mt19937 random(9);
  int errors = 0;
  for (const JpegOptions& options : Kinds()) {
    const Bytes good = NoisyFile(120, 256, 3, options);
    for (int run = 0; run < 60; ++run) {
      Bytes file = good;
      // Behind the headers.
      const size_t place = 700 + random() % (file.size() - 700);
      if (run % 3 == 0) file.resize(place);
      if (run % 3 != 0) file[place] = static_cast<uint8_t>(run % 3 == 1 ? random() : 0xFF);
      const std::string expected = DecodeWith(nullptr, file, {3, 8});
      Crew crew(2, 64U << (run % 6));
      EXPECT_TRUE(DecodeWith(&crew, file, {3, 8}) == expected) << "run " << run;
      errors += expected.starts_with("the JPEG") ? 1 : 0;
    }
  }
  EXPECT_GT(errors, 100);
}

// A file that is large enough for a helper.
Bytes LargeFile(const JpegOptions& options) {
  constexpr int kHeight = 700;
  constexpr int kWidth = 900;
  std::mt19937 random(5);
  Bytes pixels(size_t{kHeight} * kWidth * 3);
  for (uint8_t& value : pixels) value = static_cast<uint8_t>(random());
  Bytes file = WriteJpeg(pixels, kHeight, kWidth, 3, options);
  EXPECT_GT(file.size(), size_t{200} << 10);
  return file;
}

TEST(ParallelScan, TensorsAndErrorsAreThoseOfOneThread) {
  std::vector<JpegOptions> kinds(5);
  kinds[1].luma_columns = kinds[1].luma_rows = 1;
  kinds[2].restart_rows = 1;
  kinds[3].progressive = true;
  kinds[4].restart_mcus = 5;
  for (const int size : {96, 640}) {
    PreprocessParams params = Preset("ultralytics");
    params.height = params.width = size;
    params.dtype = DType::kUint8;
    params.scale = 1.0;
    Preprocessor alone(params, 1);
    Preprocessor helped(params, 2);
    for (const JpegOptions& options : kinds) {
      const Bytes good = LargeFile(options);
      for (int run = 0; run < 10; ++run) {
        Bytes file = good;
        // Damage here and there, from the second run on.
        if (run > 0) file[file.size() * static_cast<size_t>(run) / 11] ^= 0x55;
        if (run > 7) file.resize(file.size() / 2);
        const Results expected = Preprocess(alone, {Encoded(file)});
        const Results actual = Preprocess(helped, {Encoded(file)});
        EXPECT_TRUE(run > 0 || expected.status[0] == 0);
        EXPECT_EQ(actual.status, expected.status);
        EXPECT_EQ(actual.items[0].status.message, expected.items[0].status.message);
        EXPECT_TRUE(actual.tensors == expected.tensors) << size << ", run " << run;
      }
    }
  }
}

TEST(ParallelScan, RegionsAreThoseOfOneThread) {
  PreprocessParams params = Preset("ultralytics");
  params.height = params.width = 64;
  params.dtype = DType::kUint8;
  params.scale = 1.0;
  Preprocessor alone(params, 1);
  Preprocessor helped(params, 2);
  const auto run = [](Preprocessor& preprocessor, const Bytes& file, const std::vector<Roi>& rois) {
    Results results(rois.size());
    const std::vector<PreprocessOutput> outputs = results.Outputs(preprocessor.params());
    results.items = preprocessor.Run(std::vector<PreprocessInput>{{Encoded(file), rois, outputs}});
    return results;
  };
  const std::vector<std::vector<Roi>> kinds = {
      {{0, 0, 300, 300}, {200, 100, 600, 500}, {500, 400, 900, 700}, {0, 0, 900, 700}},
      {{10, 5, 300, 90}},                         // the rest is not read
      {{600, 500, 890, 690}, {3, 600, 40, 699}},  // from the lower half
      {{0, 20, 100, 60}, {0, 640, 100, 690}},     // nothing between
  };
  const Bytes good = LargeFile({});
  for (const std::vector<Roi>& rois : kinds) {
    for (int damage = 0; damage < 8; ++damage) {
      Bytes file = good;
      if (damage > 0) file[file.size() * static_cast<size_t>(damage) / 8] ^= 0x55;
      const Results expected = run(alone, file, rois);
      const Results actual = run(helped, file, rois);
      EXPECT_TRUE(damage > 0 || expected.status[0] == 0);
      EXPECT_EQ(actual.status, expected.status);
      EXPECT_EQ(actual.items[0].status.message, expected.items[0].status.message);
      EXPECT_EQ(actual.geometry, expected.geometry);
      EXPECT_TRUE(actual.tensors == expected.tensors) << damage;
    }
  }
}

}  // namespace
}  // namespace endcap
