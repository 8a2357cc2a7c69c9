#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "bls/item_tensors.h"
#include "fake_composing_models.h"

namespace endcap::triton {
namespace {

using fake::WrittenOutput;

constexpr auto kHost = TRITONSERVER_MEMORY_CPU;
constexpr ItemCount kTwo{2, /*batched=*/true};

class ItemTensors : public ::testing::Test {
 protected:
  ItemTensors() { fake::GetServer() = {}; }

  // A completed call with `output`, of 4 bytes a value.
  const ComposingCall& Call(const WrittenOutput& output) {
    call_ = std::make_shared<ComposingCall>(models_, "sum");
    std::promise<void> done;
    call_->Start(worker_, [&done] { done.set_value(); });
    fake::Respond({{output}});
    fake::ReleaseSent();
    done.get_future().wait();
    return *call_;
  }
  std::string GetRejection(const WrittenOutput& output) {
    try {
      SplitItems(Call(output), output.name, DType::kInt32, kTwo);
    } catch (const ComposingModelError& error) {
      return error.what();
    }
    return "none";
  }

  ComposingModels models_{nullptr};
  std::shared_ptr<ComposingCall> call_;
  Worker worker_{[] {}, std::chrono::milliseconds(1000)};
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
