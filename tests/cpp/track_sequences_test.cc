// Which sequences a tracking model keeps, and for how long.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "error_matchers.h"
#include "track/sequences.h"

namespace endcap::triton {
namespace {

using std::chrono::seconds;
using testing::Throws;

const Sequences::Clock::time_point kNow{};

TEST(TrackSequences, LiveFromStartToEnd) {
  Sequences sequences({}, 10, seconds(5));
  const SequenceId camera = std::string("camera 7");
  const auto first = sequences.Enter(camera, true, kNow).sequence;
  EXPECT_EQ(sequences.Enter(camera, false, kNow).sequence, first);
  EXPECT_NE(sequences.Enter(uint64_t{7}, true, kNow).sequence, first);
  const Sequences::Entered anew = sequences.Enter(camera, true, kNow);
  EXPECT_TRUE(anew.replaced);
  EXPECT_NE(anew.sequence, first);
  EXPECT_EQ(sequences.size(), 2U);
  EXPECT_FALSE(sequences.End(camera, first.get())) << "another one has begun";
  EXPECT_TRUE(sequences.End(camera, anew.sequence.get()));
  EXPECT_FALSE(sequences.End(std::string("nobody"), first.get()));
  EXPECT_EQ(sequences.size(), 1U);
  EXPECT_TRUE(Throws(ErrorCode::kInvalidArgument, "sequence 'camera 7' has not begun",
                     [&] { sequences.Enter(camera, false, kNow); }));
}

TEST(TrackSequences, NeedAnId) {
  Sequences sequences({}, 10, seconds(5));
  for (const SequenceId& none : {SequenceId{uint64_t{0}}, SequenceId{std::string()}}) {
    EXPECT_TRUE(Throws(ErrorCode::kInvalidArgument, "belongs to no sequence",
                       [&] { sequences.Enter(none, true, kNow); }));
  }
  EXPECT_EQ(sequences.size(), 0U);
}

TEST(TrackSequences, AreDroppedAfterAPause) {
  Sequences sequences({}, 10, seconds(5));
  sequences.Enter(uint64_t{1}, true, kNow);
  sequences.Enter(uint64_t{2}, true, kNow);
  sequences.Enter(uint64_t{2}, false, kNow + seconds(3));
  EXPECT_EQ(sequences.DropIdle(kNow + seconds(5)), 0U);
  EXPECT_EQ(sequences.DropIdle(kNow + seconds(6)), 1U);
  EXPECT_EQ(sequences.size(), 1U);
  EXPECT_NO_THROW(sequences.Enter(uint64_t{2}, false, kNow + seconds(7)));
  EXPECT_THROW(sequences.Enter(uint64_t{1}, false, kNow + seconds(7)), Error);
}

TEST(TrackSequences, AreNoMoreThanTheLimit) {
  Sequences sequences({}, 2, seconds(5));
  const auto first = sequences.Enter(uint64_t{1}, true, kNow).sequence;
  sequences.Enter(uint64_t{2}, true, kNow);
  EXPECT_NO_THROW(sequences.Enter(uint64_t{2}, true, kNow)) << "it takes its own place";
  EXPECT_TRUE(Throws(ErrorCode::kOutOfMemory, "there are 2 sequences",
                     [&] { sequences.Enter(uint64_t{3}, true, kNow); }));
  sequences.End(uint64_t{1}, first.get());
  EXPECT_NO_THROW(sequences.Enter(uint64_t{3}, true, kNow));
}

// Threads share ids, and what one uses others end, replace and drop.
TEST(TrackSequences, MayBeUsedByManyThreads) {
  Sequences sequences({}, 1000, seconds(5));
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&, thread] {
      for (uint64_t i = 0; i < 300; ++i) {
        const SequenceId id = 1 + (i + static_cast<uint64_t>(thread)) % 3;
        const auto sequence = sequences.Enter(id, true, kNow).sequence;
        const std::scoped_lock lock(sequence->mutex);
        std::vector<int64_t> ids(1);
        sequence->tracker.Update(std::vector<float>{0, 0, 9, 9}, std::vector<float>{0.9F}, {}, ids);
        wrong += ids[0] == 1 ? 0 : 1;
        if (i % 3 == 0) sequences.End(id, sequence.get());
        sequences.DropIdle(kNow + seconds(i % 5 == 0 ? 6 : 0));
      }
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(sequences.size(), 3U);
}

}  // namespace
}  // namespace endcap::triton
