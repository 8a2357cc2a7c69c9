#include "bls/inner_tensors.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "fake_inner_server.h"

namespace endcap::triton {
namespace {

using fake::WrittenOutput;

constexpr auto kHost = TRITONSERVER_MEMORY_CPU;
constexpr ItemCount kTwo{2, /*batched=*/true};

class InnerTensors : public ::testing::Test {
 protected:
  InnerTensors() { fake::World() = {}; }

  // A call that was answered with `output`, of four bytes a value.
  const InnerCall& Answered(const WrittenOutput& output) {
    call_ = std::make_shared<InnerCall>(server_, "sum");
    std::promise<void> done;
    call_->Start(worker_, [&done] { done.set_value(); });
    fake::Answer({{output}});
    fake::ReleaseSent();
    done.get_future().wait();
    return *call_;
  }
  std::string Refusal(const WrittenOutput& output) {
    try {
      SplitItems(Answered(output), output.name, DType::kInt32, kTwo);
    } catch (const InnerError& error) {
      return error.what();
    }
    return "none";
  }

  InnerServer server_{nullptr};
  std::shared_ptr<InnerCall> call_;
  Worker worker_{[] {}, std::chrono::milliseconds(1000)};
};

TEST_F(InnerTensors, AreCutIntoItems) {
  const auto items =
      SplitItems(Answered({"x", {1, 2, 3, 4}, kHost, {2, 2}}), "x", DType::kInt32, kTwo);
  ASSERT_EQ(items.size(), 2U);
  EXPECT_EQ(items[1].shape, std::vector<int64_t>{2});
  EXPECT_EQ(items[1].Data<int32_t>()[1], 4);
}

TEST_F(InnerTensors, ShapesThatNoMemoryHasAreRefused) {
  EXPECT_EQ(Refusal({"x", {1, 2}, kHost, {2, -1, -1}}),
            "model 'sum': gave output 'x' of the impossible shape [2, -1, -1]");
  // Its product, and that times four, are what fits into 64 bits of something else.
  EXPECT_EQ(Refusal({"x", {1, 2}, kHost, {2, int64_t{1} << 62, 4}}),
            "model 'sum': gave output 'x' of the impossible shape [2, 4611686018427387904, 4]");
  EXPECT_EQ(Refusal({"x", {}, kHost, {2, int64_t{1} << 61}}),
            "model 'sum': gave output 'x' with 0 bytes where 4611686018427387904 elements of 4 "
            "bytes in host memory were expected");
}

TEST_F(InnerTensors, OnlyItemsOfOneSizeAreCut) {
  const InnerCall& call = Answered({"x", {1, 2, 3}, kHost, {2, 1}, TRITONSERVER_TYPE_FP32});
  EXPECT_EQ(SplitItems(call, "x", kTwo).size(), 2U);  // of 6 bytes
  EXPECT_THROW(SplitItems(Answered({"x", {1}, kHost, {3, 1}}), "x", ItemCount{3, true}),
               InnerError);
  const WrittenOutput texts{"x", {0, 0}, kHost, {2, 1}, TRITONSERVER_TYPE_BYTES};
  EXPECT_THROW(SplitItems(Answered(texts), "x", kTwo), InnerError);
}

TEST_F(InnerTensors, TextsAreTheFirstOfEachItem) {
  WrittenOutput texts{"x", {0, 0, 0, 0}, kHost, {2, 2}, TRITONSERVER_TYPE_BYTES};
  EXPECT_EQ(FirstStrings(Answered(texts), "x", kTwo), (std::vector<std::string>{"", ""}));
  texts.data_type = TRITONSERVER_TYPE_INT32;
  EXPECT_THROW(FirstStrings(Answered(texts), "x", kTwo), InnerError);
  texts.data_type = TRITONSERVER_TYPE_BYTES;
  texts.shape = {2, int64_t{1} << 62, 4};
  EXPECT_THROW(FirstStrings(Answered(texts), "x", kTwo), InnerError);
  texts.shape = {2, 0};
  EXPECT_THROW(FirstStrings(Answered(texts), "x", kTwo), InnerError);
}

}  // namespace
}  // namespace endcap::triton
