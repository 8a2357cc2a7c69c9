// Which sequences a tracking model keeps, and for how long.

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "endcap/error.h"
#include "track/sequences.h"

namespace endcap::triton {
namespace {

using std::chrono::seconds;

const Sequences::Clock::time_point kNow{};

std::string MessageOf(const std::function<void()>& call, ErrorCode code) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  return "no error";
}

TEST(TrackSequences, LiveFromStartToEnd) {
  Sequences sequences({}, 10, seconds(5));
  const SequenceId camera = std::string("camera 7");
  const auto first = sequences.Enter(camera, true, kNow);
  EXPECT_EQ(sequences.Enter(camera, false, kNow), first);
  EXPECT_NE(sequences.Enter(uint64_t{7}, true, kNow), first);
  EXPECT_NE(sequences.Enter(camera, true, kNow), first) << "a start begins anew";
  EXPECT_EQ(sequences.size(), 2U);
  sequences.End(camera);
  sequences.End(std::string("nobody"));
  EXPECT_EQ(sequences.size(), 1U);
  EXPECT_NE(MessageOf([&] { sequences.Enter(camera, false, kNow); }, ErrorCode::kInvalidArgument)
                .find("sequence 'camera 7' has not begun"),
            std::string::npos);
}

TEST(TrackSequences, NeedAnId) {
  Sequences sequences({}, 10, seconds(5));
  for (const SequenceId& none : {SequenceId{uint64_t{0}}, SequenceId{std::string()}}) {
    EXPECT_NE(MessageOf([&] { sequences.Enter(none, true, kNow); }, ErrorCode::kInvalidArgument)
                  .find("belongs to no sequence"),
              std::string::npos);
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
  sequences.Enter(uint64_t{1}, true, kNow);
  sequences.Enter(uint64_t{2}, true, kNow);
  EXPECT_NO_THROW(sequences.Enter(uint64_t{2}, true, kNow)) << "it takes its own place";
  EXPECT_NE(MessageOf([&] { sequences.Enter(uint64_t{3}, true, kNow); }, ErrorCode::kOutOfMemory)
                .find("there are 2 sequences"),
            std::string::npos);
  sequences.End(uint64_t{1});
  EXPECT_NO_THROW(sequences.Enter(uint64_t{3}, true, kNow));
}

TEST(TrackSequences, MayBeUsedByManyThreads) {
  Sequences sequences({}, 1000, seconds(5));
  std::vector<std::thread> threads;
  std::atomic<int> errors = 0;
  for (uint64_t thread = 1; thread <= 8; ++thread) {
    threads.emplace_back([&, thread] {
      for (uint64_t i = 0; i < 300; ++i) {
        const SequenceId id = thread * 1000 + i % 7;
        try {
          const auto sequence = sequences.Enter(id, true, kNow);
          const std::scoped_lock lock(sequence->mutex);
          std::vector<int64_t> ids(1);
          sequence->tracker.Update(std::vector<float>{0, 0, 9, 9}, std::vector<float>{0.9F}, {},
                                   ids);
          errors += ids[0] == 1 ? 0 : 1;
        } catch (const Error&) {
          ++errors;
        }
        if (i % 3 == 0) sequences.End(id);
        sequences.DropIdle(kNow);
      }
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(errors, 0);
}

}  // namespace
}  // namespace endcap::triton
