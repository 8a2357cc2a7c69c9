#include "decode/read_ahead.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

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

constexpr int kSteps = 200;

// Steps that note their order; `fails`: the one that throws.
struct Steps {
  std::vector<int> done;
  int fails = -1;

  void operator()(int i) {
    if (i == fails) throw std::runtime_error("step " + std::to_string(i));
    done.push_back(i);
  }
};

std::vector<int> Sequence(int count) {
  std::vector<int> numbers(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) numbers[static_cast<size_t>(i)] = i;
  return numbers;
}

TEST(ReadAhead, TheUserDoesAllStepsWithoutAHelper) {
  ReadAhead ahead;
  Steps steps;
  ahead.Begin([&](int i) { steps(i); });
  ahead.Require(4);
  EXPECT_EQ(steps.done, Sequence(5));
  ahead.Require(2);
  ahead.Allow(50);
  ahead.End();
  EXPECT_EQ(steps.done, Sequence(5));
}

TEST(ReadAhead, AHelperDoesTheStepsThatItMay) {
  ReadAhead ahead;
  std::atomic<int> done{0};
  ahead.Begin([&](int) { ++done; });
  std::thread helper([&] { ahead.Help(); });
  ahead.Allow(7);
  while (done < 7) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(done, 7);
  ahead.End();
  helper.join();
  EXPECT_EQ(done, 7);
}

TEST(ReadAhead, AHelperLeavesWhenItIsAskedTo) {
  ReadAhead ahead;
  Steps steps;
  ahead.Begin([&](int i) { steps(i); });
  ahead.Allow(20);
  ahead.Help([&] { return steps.done.size() == 3; });
  EXPECT_EQ(steps.done, Sequence(3));
  ahead.Require(4);
  EXPECT_EQ(steps.done, Sequence(5));
}

TEST(ReadAhead, EachStepIsDoneOnceAndInOrder) {
  for (int run = 0; run < 50; ++run) {
    ReadAhead ahead;
    Steps steps;
    std::thread helper([&] { ahead.Help(); });  // often before Begin
    ahead.Begin([&](int i) { steps(i); });
    for (int i = 0; i < kSteps; ++i) {
      ahead.Allow(i + 1 + i % 8);
      ahead.Require(i);
    }
    ahead.End();
    helper.join();
    EXPECT_GE(steps.done.size(), size_t{kSteps});
    EXPECT_EQ(steps.done, Sequence(static_cast<int>(steps.done.size())));
  }
}

TEST(ReadAhead, TheErrorOfAStepIsThatOfRequire) {
  for (const bool helped : {false, true}) {
    ReadAhead ahead;
    Steps steps;
    steps.fails = 5;
    std::thread helper([&] {
      if (helped) ahead.Help();
    });
    ahead.Begin([&](int i) { steps(i); });
    ahead.Allow(20);
    ahead.Require(4);
    for (int again = 0; again < 2; ++again) {
      try {
        ahead.Require(5);
        ADD_FAILURE();
      } catch (const std::runtime_error& error) {
        EXPECT_STREQ(error.what(), "step 5");
      }
    }
    ahead.End();
    helper.join();
    EXPECT_EQ(steps.done, Sequence(5));
  }
}

// As if it had lost its CPU.
TEST(ReadAhead, AHelperThatComesLateHelpsNoMore) {
  ReadAhead ahead;
  std::atomic<bool> helps{false};
  std::vector<std::thread::id> threads;
  ahead.Begin([&](int i) {
    threads.push_back(std::this_thread::get_id());
    if (i > 0) return;
    helps = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  });
  std::thread helper([&] { ahead.Help(); });
  const std::thread::id helper_id = helper.get_id();
  ahead.Allow(1);
  while (!helps) std::this_thread::yield();
  ahead.Require(0);
  EXPECT_TRUE(ahead.was_late());
  helper.join();  // without End
  ahead.Allow(10);
  ahead.Require(9);
  EXPECT_EQ(threads.size(), size_t{10});
  EXPECT_EQ(threads.front(), helper_id);
  EXPECT_EQ(std::ranges::count(threads, helper_id), 1);
}

TEST(ReadAhead, EndsWithoutABeginning) {
  ReadAhead ahead;
  std::thread helper([&] { ahead.Help(); });
  ahead.End();
  helper.join();
  ahead.Help();
}

// How many of so many images are helped, of which one in 17 is a trial of the other way.
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

TEST(ReadAhead, TensorsAndErrorsAreThoseOfOneThread) {
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

}  // namespace
}  // namespace endcap
