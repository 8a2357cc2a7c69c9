#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "bls/item_tensors.h"
#include "fake_composing_models.h"

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
