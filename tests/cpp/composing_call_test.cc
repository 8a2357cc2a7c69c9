#include "triton_util/composing_call.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "bls/item_tensors.h"
#include "fake_composing_models.h"

namespace endcap::triton {
namespace {

using fake::FakeResponse;
using fake::GetServer;
using fake::ReleaseSent;
using fake::Respond;
using std::chrono::milliseconds;

class ComposingCallTest : public ::testing::Test {
 protected:
  ComposingCallTest() { GetServer() = {}; }
  ~ComposingCallTest() override {
    WaitForWorker();
    call_.reset();
    EXPECT_EQ(GetServer().requests, 0);
    EXPECT_EQ(GetServer().responses, 0);
    EXPECT_EQ(GetServer().gpu_blocks, 0);
  }

  ComposingCall& New() {
    call_ = std::make_shared<ComposingCall>(models_, "sum");
    return *call_;
  }
  std::future<void> Start() {
    auto done = std::make_shared<std::promise<void>>();
    call_->Start(worker_, [done] { done->set_value(); });
    return done->get_future();
  }
  void WaitForWorker() {
    std::promise<void> reached;
    Worker::PreparedTask task;
    task.push_back([&reached] { reached.set_value(); });
    worker_.Post(std::move(task));
    reached.get_future().wait();
  }
  // Runs the call to its end with that response.
  ComposingCall& Complete(const FakeResponse& response) {
    const std::future<void> done = Start();
    Respond(response);
    ReleaseSent();
    done.wait();
    return *call_;
  }
  std::string GetFailure(const FakeResponse& response) {
    New();
    const ComposingCall& call = Complete(response);
    return call.failure().has_value() ? Describe(*call.failure()) : "";
  }

  ComposingModels models_{nullptr};
  std::shared_ptr<ComposingCall> call_;
  Worker worker_{[] {}, milliseconds(1000)};
};

TEST_F(ComposingCallTest, IsDoneAfterResponseAndReleaseInAnyOrder) {
  for (const bool response_first : {true, false}) {
    New();
    const std::future<void> done = Start();
    response_first ? Respond({}) : ReleaseSent();
    EXPECT_EQ(done.wait_for(milliseconds(10)), std::future_status::timeout);
    response_first ? ReleaseSent() : Respond({});
    done.wait();
    EXPECT_FALSE(call_->failure().has_value());
  }
}

TEST_F(ComposingCallTest, AnErrorResponseDoesNotWaitForTheRelease) {
  const auto input = std::make_shared<int>(1);
  New().Keep(input);
  const std::future<void> done = Start();
  Respond({.error = "no such thing"});
  done.wait();
  EXPECT_TRUE(call_->failure().has_value());
  call_.reset();
  // The server still has the request, and reads its input.
  EXPECT_EQ(GetServer().requests, 1);
  EXPECT_EQ(input.use_count(), 2);
  ReleaseSent();
  WaitForWorker();
  EXPECT_EQ(GetServer().requests, 0);
  EXPECT_EQ(input.use_count(), 1);
}

TEST_F(ComposingCallTest, KeepsInputsUntilTheRelease) {
  const auto input = std::make_shared<int>(1);
  New().Keep(input);
  const std::future<void> done = Start();
  Respond({});
  WaitForWorker();
  EXPECT_EQ(input.use_count(), 2);
  ReleaseSent();
  done.wait();
  EXPECT_EQ(input.use_count(), 1);
}

TEST_F(ComposingCallTest, DropsResponsesAfterTheFinalOne) {
  for (const std::string error : {"", "no such thing"}) {
    New();
    const std::future<void> done = Start();
    Respond({.error = error});
    Respond({.error = "and another thing"});
    ReleaseSent();
    done.wait();
    WaitForWorker();
    EXPECT_EQ(call_->failure().has_value(), !error.empty());
  }
}

TEST_F(ComposingCallTest, AnOutputStaysOnTheGpuIfAllowed) {
  ComposingCall& call = New();
  call.WantOutput("images", /*may_stay_on_gpu=*/true);
  call.WantOutput("sums");
  constexpr auto kGpu = TRITONSERVER_MEMORY_GPU;
  Complete({{{"images", {1, 2}, kGpu}, {"sums", {3}, kGpu}}});
  EXPECT_EQ(GetServer().gpu_blocks, 1);
  EXPECT_TRUE(call.Output("images").memory.place.on_gpu());
  const ComposingOutput& sums = call.Output("sums");
  EXPECT_FALSE(sums.memory.place.on_gpu());
  EXPECT_EQ(sums.shape, std::vector<int64_t>{1});
  EXPECT_EQ(*reinterpret_cast<const int32_t*>(sums.memory.data), 3);
  EXPECT_THROW(call.Output("products"), ComposingModelError);
}

TEST_F(ComposingCallTest, AllocatesHostMemoryIfAGpuHasNone) {
  GetServer().gpu_memory_is_full = true;
  ComposingCall& call = New();
  call.WantOutput("images", /*may_stay_on_gpu=*/true);
  Complete({{{"images", {1, 2}, TRITONSERVER_MEMORY_GPU}}});
  EXPECT_FALSE(call.Output("images").memory.place.on_gpu());
}

TEST_F(ComposingCallTest, AFailureHasTheNameAndCodeOfTheModel) {
  EXPECT_EQ(GetFailure({.error = "no such thing"}), "model 'sum': no such thing");
  EXPECT_EQ(call_->failure()->code, TRITONSERVER_ERROR_UNSUPPORTED);
  EXPECT_EQ(GetFailure({.response = false}), "model 'sum': sent no response");
}

TEST(MakeComposingFailure, KeepsUnavailableAndCancelledApartFromTheCallers) {
  const Failure unavailable = MakeComposingFailure("sum", TRITONSERVER_ERROR_UNAVAILABLE, "full");
  EXPECT_EQ(unavailable.code, TRITONSERVER_ERROR_UNAVAILABLE);
  EXPECT_EQ(unavailable.reason, ErrorCode::kInternal);
  EXPECT_TRUE(unavailable.IsOfUnavailableModel());
  const Failure cancelled = MakeComposingFailure("sum", TRITONSERVER_ERROR_CANCELLED, "cancelled");
  EXPECT_EQ(cancelled.code, TRITONSERVER_ERROR_INTERNAL);
  EXPECT_EQ(cancelled.reason, ErrorCode::kInternal);
  EXPECT_FALSE(cancelled.IsOfUnavailableModel());
  EXPECT_FALSE((Failure{TRITONSERVER_ERROR_UNAVAILABLE, ErrorCode::kOutOfMemory, "own", false})
                   .IsOfUnavailableModel());
}

TEST_F(ComposingCallTest, SeveralResponsesAreAFailure) {
  New();
  const std::future<void> done = Start();
  Respond({.final = false});
  Respond({});
  ReleaseSent();
  done.wait();
  EXPECT_EQ(Describe(*call_->failure()),
            "model 'sum': sent several responses to a request: a cascade takes one");
}

TEST_F(ComposingCallTest, ThrowsIfTheServerRejectsTheRequest) {
  New();
  GetServer().refuses_requests = true;
  try {
    call_->Start(worker_, [] { FAIL() << "done ran without a response"; });
    FAIL() << "Start did not throw";
  } catch (const ComposingModelError& error) {
    EXPECT_EQ(error.failure().code, TRITONSERVER_ERROR_UNAVAILABLE);
    EXPECT_EQ(error.failure().message, "model 'sum': the queue is full");
  }
  GetServer().missing_model = "sum";
  EXPECT_THROW(ComposingCall(models_, "sum"), ComposingModelError);
}

TEST_F(ComposingCallTest, CachesDescriptionsForALimitedTime) {
  ComposingModels models(nullptr, std::chrono::hours(1));
  const ComposingModel& model = models.Describe("sum");
  EXPECT_EQ(model.max_batch_size, 4);
  EXPECT_TRUE(model.HasOutput("sums"));
  EXPECT_FALSE(model.HasOutput("images"));
  GetServer().missing_model = "sum";
  EXPECT_NO_THROW(models.Describe("sum"));
  ComposingModels uncached(nullptr, ComposingModels::Clock::duration::zero());
  EXPECT_THROW(uncached.Describe("sum"), ComposingModelError);
  GetServer().missing_model.clear();
  EXPECT_NO_THROW(uncached.Describe("sum"));
  GetServer().missing_model = "sum";
  EXPECT_THROW(uncached.Describe("sum"), ComposingModelError);
  EXPECT_FALSE(models_.IsReady("sum"));
}

using fake::WrittenOutput;

constexpr auto kHost = TRITONSERVER_MEMORY_CPU;
constexpr ItemCount kTwo{2, /*batched=*/true};

class ItemTensors : public ComposingCallTest {
 protected:
  // A completed call with `output`, of 4 bytes a value.
  const ComposingCall& Call(const WrittenOutput& output) {
    New();
    return Complete({{output}});
  }
  std::string GetRejection(const WrittenOutput& output) {
    try {
      SplitItems(Call(output), output.name, DType::kInt32, kTwo);
    } catch (const ComposingModelError& error) {
      return error.what();
    }
    return "none";
  }
};

TEST_F(ItemTensors, SplitsAnOutputIntoItems) {
  const auto items = SplitItems(Call({"x", {1, 2, 3, 4}, kHost, {2, 2}}), "x", DType::kInt32, kTwo);
  ASSERT_EQ(items.size(), 2U);
  EXPECT_EQ(items[1].shape, std::vector<int64_t>{2});
  EXPECT_EQ(items[1].Data<int32_t>()[1], 4);
}

TEST_F(ItemTensors, RejectsImpossibleShapes) {
  EXPECT_EQ(GetRejection({"x", {1, 2}, kHost, {2, -1, -1}}),
            "model 'sum': gave output 'x' of the impossible shape [2, -1, -1]");
  // The number of elements exceeds 64 bits.
  EXPECT_EQ(GetRejection({"x", {1, 2}, kHost, {2, int64_t{1} << 62, 4}}),
            "model 'sum': gave output 'x' of the impossible shape [2, 4611686018427387904, 4]");
  EXPECT_EQ(GetRejection({"x", {}, kHost, {2, int64_t{1} << 61}}),
            "model 'sum': gave output 'x' with 0 bytes where 4611686018427387904 elements of 4 "
            "bytes in host memory were expected");
}

TEST_F(ItemTensors, SplitsItemsOfOneSizeOnly) {
  const ComposingCall& call = Call({"x", {1, 2, 3}, kHost, {2, 1}, TRITONSERVER_TYPE_FP32});
  EXPECT_EQ(SplitItems(call, "x", kTwo).size(), 2U);  // of 6 bytes
  EXPECT_THROW(SplitItems(Call({"x", {1}, kHost, {3, 1}}), "x", ItemCount{3, true}),
               ComposingModelError);
  const WrittenOutput texts{"x", {0, 0}, kHost, {2, 1}, TRITONSERVER_TYPE_BYTES};
  EXPECT_THROW(SplitItems(Call(texts), "x", kTwo), ComposingModelError);
}

TEST_F(ItemTensors, FirstStringsReadsTheFirstElementOfEachItem) {
  WrittenOutput texts{"x", {0, 0, 0, 0}, kHost, {2, 2}, TRITONSERVER_TYPE_BYTES};
  EXPECT_EQ(FirstStrings(Call(texts), "x", kTwo), (std::vector<std::string>{"", ""}));
  texts.data_type = TRITONSERVER_TYPE_INT32;
  EXPECT_THROW(FirstStrings(Call(texts), "x", kTwo), ComposingModelError);
  texts.data_type = TRITONSERVER_TYPE_BYTES;
  texts.shape = {2, int64_t{1} << 62, 4};
  EXPECT_THROW(FirstStrings(Call(texts), "x", kTwo), ComposingModelError);
  texts.shape = {2, 0};
  EXPECT_THROW(FirstStrings(Call(texts), "x", kTwo), ComposingModelError);
}

}  // namespace
}  // namespace endcap::triton

namespace endcap::bls {
namespace {

TEST(SelectRows, ReturnsRowsAboveTheThresholdThatHaveARoute) {
  const Routes routes = Routes::Parse("0=rois+shapes,2=rois+rings");
  const std::vector<float> scores{0.9F, 0.8F, 0.5F, 0.25F, 0.2F};
  const std::vector<int32_t> class_ids{2, 1, 0, 0, 0};
  EXPECT_EQ(SelectRows(scores, class_ids, 0.25, routes),
            (std::vector<SelectedRow>{{0, {0, 1}}, {2, {0, 0}}}));
  EXPECT_TRUE(SelectRows(scores, class_ids, 1.0, routes).empty());
  EXPECT_TRUE(SelectRows({}, {}, 0.0, routes).empty());
}

TEST(SelectRows, ComparesInDoublePrecisionAsTheCoreDoes) {
  const Routes routes = Routes::Parse("*=rois+shapes");
  const std::vector<float> scores{0.1F};  // slightly greater than the double 0.1
  const std::vector<int32_t> class_ids{0};
  EXPECT_EQ(SelectRows(scores, class_ids, 0.1, routes).size(), 1U);
  EXPECT_TRUE(SelectRows(scores, class_ids, static_cast<double>(0.1F), routes).empty());
}

TEST(SplitIntoRanges, CoversAllItemsWithinTheLimit) {
  EXPECT_EQ(SplitIntoRanges(7, 3), (std::vector<Range>{{0, 3}, {3, 3}, {6, 1}}));
  EXPECT_EQ(SplitIntoRanges(3, 3), (std::vector<Range>{{0, 3}}));
  EXPECT_TRUE(SplitIntoRanges(0, 3).empty());
}

TEST(SplitByOwner, DividesARangeByRequest) {
  const std::vector<size_t> owners{0, 0, 1, 3, 3, 3};
  EXPECT_EQ(SplitByOwner({0, 6}, owners), (std::vector<Range>{{0, 2}, {2, 1}, {3, 3}}));
  EXPECT_EQ(SplitByOwner({1, 3}, owners), (std::vector<Range>{{1, 1}, {2, 1}, {3, 1}}));
  EXPECT_EQ(SplitByOwner({4, 2}, owners), (std::vector<Range>{{4, 2}}));
}

}  // namespace
}  // namespace endcap::bls
