#include "triton_util/inner_call.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <future>
#include <memory>
#include <string>

#include "fake_inner_server.h"

namespace endcap::triton {
namespace {

using fake::Answer;
using fake::InnerAnswer;
using fake::ReleaseSent;
using fake::World;
using std::chrono::milliseconds;

constexpr std::array<int64_t, 1> kShape{4};

class InnerCalls : public ::testing::Test {
 protected:
  InnerCalls() { World() = {}; }
  ~InnerCalls() override {
    WaitForWorker();
    call_.reset();
    EXPECT_EQ(World().requests, 0);
    EXPECT_EQ(World().responses, 0);
    EXPECT_EQ(World().gpu_blocks, 0);
  }

  InnerCall& New() {
    call_ = std::make_shared<InnerCall>(server_, "sum");
    return *call_;
  }
  std::future<void> Start() {
    auto done = std::make_shared<std::promise<void>>();
    call_->Start(worker_, [done] { done->set_value(); });
    return done->get_future();
  }
  void WaitForWorker() {
    std::promise<void> reached;
    Worker::Ready ready;
    ready.push_back([&reached] { reached.set_value(); });
    worker_.Post(std::move(ready));
    reached.get_future().wait();
  }
  // A call that is done, and what it got.
  InnerCall& Done(const InnerAnswer& answer) {
    const std::future<void> done = Start();
    Answer(answer);
    ReleaseSent();
    done.wait();
    return *call_;
  }
  std::string GetFailure(const InnerAnswer& answer) {
    New();
    const InnerCall& call = Done(answer);
    return call.failure().has_value() ? Describe(*call.failure()) : "";
  }

  InnerServer server_{nullptr};
  std::shared_ptr<InnerCall> call_;
  Worker worker_{[] {}, milliseconds(1000)};
};

TEST_F(InnerCalls, NeighboursInMemoryAreOneBuffer) {
  const std::array<std::byte, 16> memory{};
  const std::byte* at = memory.data();
  const MemoryPlace gpu = MemoryPlace::Gpu(0);
  const std::array pieces{Piece{at, 4, {}}, Piece{at + 4, 2, {}}, Piece{at + 8, 2, {}},
                          Piece{at + 10, 2, gpu}, Piece{at + 12, 4, gpu}};
  New().AddInput("x", TRITONSERVER_TYPE_INT32, kShape, pieces);
  Done({});
  const std::vector<fake::SentBuffer>& buffers = World().sent.inputs.at("x");
  ASSERT_EQ(buffers.size(), 3U);
  EXPECT_EQ(buffers[0].data, at);
  EXPECT_EQ(buffers[0].bytes, 6U);
  EXPECT_EQ(buffers[1].data, at + 8);
  EXPECT_EQ(buffers[1].bytes, 2U);
  EXPECT_EQ(buffers[2].bytes, 6U);
  EXPECT_EQ(buffers[2].memory_type, TRITONSERVER_MEMORY_GPU);
}

TEST_F(InnerCalls, AreDoneWhenAnsweredAndReleasedInAnyOrder) {
  for (const bool answer_first : {true, false}) {
    New();
    const std::future<void> done = Start();
    answer_first ? Answer({}) : ReleaseSent();
    EXPECT_EQ(done.wait_for(milliseconds(10)), std::future_status::timeout);
    answer_first ? ReleaseSent() : Answer({});
    done.wait();
    EXPECT_FALSE(call_->failure().has_value());
  }
}

TEST_F(InnerCalls, AnErrorDoesNotWaitForTheRequest) {
  const auto input = std::make_shared<int>(1);
  New().Keep(input);
  const std::future<void> done = Start();
  Answer({.error = "no such thing"});
  done.wait();
  EXPECT_EQ(Describe(*call_->failure()), "model 'sum': no such thing");
  call_.reset();
  // The server still has it, and what it reads.
  EXPECT_EQ(World().requests, 1);
  EXPECT_EQ(input.use_count(), 2);
  ReleaseSent();
  WaitForWorker();
  EXPECT_EQ(World().requests, 0);
  EXPECT_EQ(input.use_count(), 1);
}

TEST_F(InnerCalls, InputsAreKeptUntilTheRequestIsGivenBack) {
  const auto input = std::make_shared<int>(1);
  New().Keep(input);
  const std::future<void> done = Start();
  Answer({});
  WaitForWorker();
  EXPECT_EQ(input.use_count(), 2);
  ReleaseSent();
  done.wait();
  EXPECT_EQ(input.use_count(), 1);
}

TEST_F(InnerCalls, AnswersAfterTheLastAreDropped) {
  for (const std::string error : {"", "no such thing"}) {
    New();
    const std::future<void> done = Start();
    Answer({.error = error});
    Answer({.error = "and another thing"});
    ReleaseSent();
    done.wait();
    WaitForWorker();
    EXPECT_EQ(call_->failure().has_value(), !error.empty());
  }
}

TEST_F(InnerCalls, AnOutputStaysOnTheGpuWhereItMay) {
  InnerCall& call = New();
  call.WantOutput("images", /*may_stay_on_gpu=*/true);
  call.WantOutput("sums");
  constexpr auto kGpu = TRITONSERVER_MEMORY_GPU;
  Done({{{"images", {1, 2}, kGpu}, {"sums", {3}, kGpu}}});
  EXPECT_EQ(World().gpu_blocks, 1);
  EXPECT_TRUE(call.Output("images").memory.place.on_gpu());
  const InnerOutput& sums = call.Output("sums");
  EXPECT_FALSE(sums.memory.place.on_gpu());
  EXPECT_EQ(sums.shape, std::vector<int64_t>{1});
  EXPECT_EQ(*reinterpret_cast<const int32_t*>(sums.memory.data), 3);
  EXPECT_THROW(call.Output("products"), InnerError);
}

TEST_F(InnerCalls, HostMemoryIsGivenWhereAGpuHasNone) {
  World().gpu_memory_is_full = true;
  InnerCall& call = New();
  call.WantOutput("images", /*may_stay_on_gpu=*/true);
  Done({{{"images", {1, 2}, TRITONSERVER_MEMORY_GPU}}});
  EXPECT_FALSE(call.Output("images").memory.place.on_gpu());
}

TEST_F(InnerCalls, AFailureNamesTheModelAndKeepsItsCode) {
  EXPECT_EQ(GetFailure({.error = "no such thing"}), "model 'sum': no such thing");
  EXPECT_EQ(call_->failure()->code, TRITONSERVER_ERROR_UNSUPPORTED);
  EXPECT_EQ(GetFailure({.response = false}), "model 'sum': gave no answer");
}

TEST(InnerFailures, OfMemoryAndOfClientsAreOfTheInnerModelAlone) {
  const Failure unavailable = InnerFailure("sum", TRITONSERVER_ERROR_UNAVAILABLE, "full");
  EXPECT_EQ(unavailable.code, TRITONSERVER_ERROR_UNAVAILABLE);
  EXPECT_EQ(unavailable.reason, ErrorCode::kInternal);
  const Failure cancelled = InnerFailure("sum", TRITONSERVER_ERROR_CANCELLED, "cancelled");
  EXPECT_EQ(cancelled.code, TRITONSERVER_ERROR_INTERNAL);
  EXPECT_EQ(cancelled.reason, ErrorCode::kInternal);
}

TEST_F(InnerCalls, SeveralAnswersAreAFailure) {
  New();
  const std::future<void> done = Start();
  Answer({.final = false});
  Answer({});
  ReleaseSent();
  done.wait();
  EXPECT_EQ(Describe(*call_->failure()),
            "model 'sum': gave several answers to a request: a cascade takes one");
}

TEST_F(InnerCalls, WhatTheServerRefusesIsThrown) {
  New();
  World().refuses_requests = true;
  try {
    call_->Start(worker_, [] { FAIL() << "it never started"; });
    FAIL() << "it started";
  } catch (const InnerError& error) {
    EXPECT_EQ(error.failure().code, TRITONSERVER_ERROR_UNAVAILABLE);
    EXPECT_EQ(error.failure().message, "model 'sum': the queue is full");
  }
  World().missing_model = "sum";
  EXPECT_THROW(InnerCall(server_, "sum"), InnerError);
}

TEST_F(InnerCalls, CanBeCancelled) {
  New();
  const std::future<void> done = Start();
  call_->Cancel();
  EXPECT_TRUE(World().sent.cancelled);
  Answer({.error = "cancelled"});
  ReleaseSent();
  done.wait();
}

TEST_F(InnerCalls, AModelIsAskedForOnceInAWhile) {
  InnerServer server(nullptr, std::chrono::hours(1));
  const InnerModel& model = server.Describe("sum");
  EXPECT_EQ(model.max_batch_size, 4);
  EXPECT_TRUE(model.HasOutput("sums"));
  EXPECT_FALSE(model.HasOutput("images"));
  World().missing_model = "sum";
  EXPECT_NO_THROW(server.Describe("sum"));
  InnerServer forgetful(nullptr, InnerServer::Clock::duration::zero());
  EXPECT_THROW(forgetful.Describe("sum"), InnerError);
  World().missing_model.clear();
  EXPECT_NO_THROW(forgetful.Describe("sum"));
  World().missing_model = "sum";
  EXPECT_THROW(forgetful.Describe("sum"), InnerError);
  EXPECT_FALSE(server_.IsReady("sum"));
}

}  // namespace
}  // namespace endcap::triton
