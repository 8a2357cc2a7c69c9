#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "common/elementary_functions.h"
#include "common/select_implementation.h"
#include "endcap/cuda.h"
#include "endcap/error.h"
#include "endcap/implementation.h"
#include "endcap/nms.h"
#include "endcap/thread_pool.h"
#include "error_matchers.h"

namespace endcap {
namespace {

using testing::Throws;

template <typename Thrown>
ItemStatus MakeStatus(const Thrown& thrown) {
  try {
    throw thrown;
  } catch (...) {
    return MakeStatusFromCurrentException();
  }
}

TEST(Status, TellsExceptionsApart) {
  const ItemStatus own = MakeStatus(Error(ErrorCode::kImageLimit, "too large"));
  EXPECT_EQ(own.code, ErrorCode::kImageLimit);
  EXPECT_EQ(own.message, "too large");
  EXPECT_FALSE(own.ok());
  EXPECT_EQ(MakeStatus(std::bad_alloc()).code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(MakeStatus(std::runtime_error("x")).code, ErrorCode::kInternal);
  EXPECT_EQ(MakeStatus(42).code, ErrorCode::kInternal);
  EXPECT_TRUE(ItemStatus{}.ok());
}

TEST(Logarithm, IsThatOfTheLibrary) {
  for (double x = 1e-30; x < 1e30; x *= 1.0 + 1.0 / 64) {
    const double expected = std::log(x);
    EXPECT_NEAR(Logarithm(x), expected, 1e-12 * std::abs(expected)) << x;
  }
  for (double step = 1e-15; step < 0.5; step *= 1.5) {
    EXPECT_NEAR(Logarithm(1.0 + step), std::log(1.0 + step), 1e-12 * step) << step;
    EXPECT_NEAR(Logarithm(1.0 - step), std::log(1.0 - step), 2e-12 * step) << step;
  }
  EXPECT_EQ(Logarithm(1.0), 0.0);
}

TEST(Logarithm, HasItsEnds) {
  EXPECT_EQ(Logarithm(0.0), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(Logarithm(-1.0)));
  EXPECT_TRUE(std::isnan(Logarithm(std::numeric_limits<double>::quiet_NaN())));
  EXPECT_GT(Logarithm(std::numeric_limits<double>::infinity()), 700.0);
}

void ExpectCosSin(float angle) {
  const CosSin turn = ComputeCosSin(angle);
  EXPECT_NEAR(turn.cos, std::cos(static_cast<double>(angle)), 5e-16) << angle;
  EXPECT_NEAR(turn.sin, std::sin(static_cast<double>(angle)), 5e-16) << angle;
}

TEST(Trigonometry, CosineAndSineAreThoseOfTheLibrary) {
  // From the least float to the greatest, some thousand steps for each power of 2.
  for (uint32_t bits = 0; bits < 0x7F800000U; bits += 8191) {
    const auto angle = std::bit_cast<float>(bits);
    ExpectCosSin(angle);
    ExpectCosSin(-angle);
  }
  for (float angle = -8.0F; angle < 8.0F; angle += 1.0F / 4096) ExpectCosSin(angle);
  for (int quarter = -400; quarter <= 400; ++quarter) {
    auto angle = static_cast<float>(quarter * std::atan(1.0));
    ExpectCosSin(std::nextafter(angle, -1e9F));
    ExpectCosSin(angle);
    ExpectCosSin(std::nextafter(angle, 1e9F));
  }
  ExpectCosSin(std::numeric_limits<float>::max());
}

TEST(Trigonometry, CosineAndSineHaveTheirEnds) {
  EXPECT_EQ(ComputeCosSin(0.0F).cos, 1.0);
  EXPECT_EQ(ComputeCosSin(0.0F).sin, 0.0);
  for (const float angle :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_TRUE(std::isnan(ComputeCosSin(angle).cos));
    EXPECT_TRUE(std::isnan(ComputeCosSin(angle).sin));
  }
}

TEST(Trigonometry, ArcTangentIsThatOfTheLibrary) {
  for (double ratio = 1e-40; ratio < 1e40; ratio *= 1.0 + 1.0 / 64) {
    for (const double x : {1e-38, 0.3, 1e38}) {
      const double expected = std::atan(ratio);
      EXPECT_NEAR(ArcTangent(ratio * x, x), expected, 1e-14 * expected) << ratio;
      EXPECT_NEAR(ArcTangent(-ratio * x, x), -expected, 1e-14 * expected) << ratio;
    }
  }
  EXPECT_EQ(ArcTangent(0.0, 2.0), 0.0);
}

TEST(ClipText, CutsBetweenCharacters) {
  std::string clipped(256, 'a');
  EXPECT_EQ(ClipText(clipped), clipped);
  clipped += "...";
  EXPECT_EQ(ClipText(std::string(257, 'a')), clipped);
  for (const std::string_view character : {"\u00e9", "\u732b", "\U0001f642"}) {
    for (const size_t before : {0, 1, 2, 3}) {
      std::string text(before, 'a');
      while (text.size() < 300) text += character;
      const size_t kept = before + (256 - before) / character.size() * character.size();
      EXPECT_EQ(ClipText(text), text.substr(0, kept) + "...");
    }
  }
}

TEST(ThreadPool, CallsEveryIndexOnce) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.thread_count(), threads);
    for (const int count : {0, 1, 2, 1000}) {
      std::vector<std::atomic<int>> calls(static_cast<size_t>(count));
      pool.ParallelFor(count, [&](int i) { ++calls[static_cast<size_t>(i)]; });
      for (const auto& call : calls) EXPECT_EQ(call.load(), 1);
    }
  }
}

TEST(ThreadPool, AStopCheckEndsTheCallOfItsThread) {
  for (const int threads : {1, 4}) {
    ThreadPool pool(threads);
    std::vector<std::atomic<int>> calls(1000);
    const auto caller = std::this_thread::get_id();
    std::atomic<bool> stopped{false};
    const auto call = [&](int i) {
      ++calls[static_cast<size_t>(i)];
      // The other threads leave indices to the caller.
      while (i > 20 && std::this_thread::get_id() != caller && !stopped) std::this_thread::yield();
    };
    std::atomic<bool> asked_elsewhere{false};
    const std::function<bool()> stop = [&] {
      if (std::this_thread::get_id() != caller) asked_elsewhere = true;
      stopped = calls[20] > 0;
      return stopped.load();
    };
    {
      const StopCheck check(stop);
      {
        const std::function<bool()> never = [] { return false; };
        const StopCheck inner(never);
        pool.ParallelFor(10, call);
      }
      EXPECT_TRUE(Throws(ErrorCode::kInternal, "stopped", [&] { pool.ParallelFor(1000, call); }));
      std::thread([&] { pool.ParallelFor(10, call); }).join();
    }
    EXPECT_FALSE(asked_elsewhere);
    for (int i = 0; i < 10; ++i) EXPECT_EQ(calls[static_cast<size_t>(i)], 3) << i;
    const auto rest = std::ranges::find(calls, 0, [](const auto& count) { return count.load(); });
    EXPECT_GT(rest - calls.begin(), 20);
    EXPECT_TRUE(std::all_of(rest, calls.end(), [](const auto& count) { return count == 0; }))
        << "an index was called after one that was given up";
    pool.ParallelFor(1000, call);
    EXPECT_EQ(calls.back(), 1);
  }
}

TEST(ThreadPool, ServesSeveralCallersAtOnce) {
  ThreadPool pool(3);
  std::atomic<int> sum{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        std::atomic<int> own{0};
        pool.ParallelFor(7, [&](int i) { own += i; });
        sum += own == 21 ? 1 : 0;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum.load(), 800);
}

TEST(ThreadPool, RefusesImpossibleCounts) {
  EXPECT_TRUE(Throws(ErrorCode::kInvalidArgument, "threads", [] { ThreadPool pool(-1); }));
  EXPECT_TRUE(Throws(ErrorCode::kInvalidArgument, "threads", [] { ThreadPool pool(1025); }));
}

TEST(ThreadPool, ZeroTakesAllCpus) {
  EXPECT_GE(AvailableCpuCount(), 1);
  EXPECT_EQ(ThreadPool(0).thread_count(), AvailableCpuCount());
}

bool RanLast(std::string_view name) {
  for (const ImplementationInfo& one : ListImplementations()) {
    if (one.name == name) return one.ran_last;
  }
  return false;
}

TEST(Implementations, ARunOnAGpuIsNotedByItsCaller) {
  NoteRun(Stage::kNms, Implementation::kCuda);
  EXPECT_TRUE(RanLast("nms_cuda"));
  EXPECT_FALSE(RanLast("nms_scalar"));
  const std::vector<float> box = {0, 0, 1, 1};
  const std::vector<float> score = {0.5F};
  EXPECT_EQ(Nms(box, score, {}, {}).size(), 1U);
  EXPECT_FALSE(RanLast("nms_cuda"));
}

}  // namespace
}  // namespace endcap
