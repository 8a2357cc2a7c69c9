#include <gtest/gtest.h>

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "bls/item_tensors.h"
#include "bls/routes.h"
#include "error_matchers.h"

namespace endcap::bls {
namespace {

using Names = std::vector<std::string>;

TEST(Routes, EachClassAndTheRestHaveARoute) {
  const Routes routes = Routes::Parse(" 5 = rois+rings ,0|3=rois + shapes,* =other_rois+shapes ");
  EXPECT_EQ(routes.rois_models(), (Names{"rois", "other_rois"}));
  EXPECT_EQ(routes.classifiers(), (Names{"rings", "shapes"}));
  EXPECT_EQ(routes.Find(5), (Route{0, 0}));
  EXPECT_EQ(routes.Find(0), (Route{0, 1}));
  EXPECT_EQ(routes.Find(3), (Route{0, 1}));
  EXPECT_EQ(routes.Find(1), (Route{1, 1}));
  EXPECT_EQ(routes.Find(-1), (Route{1, 1}));
  EXPECT_FALSE(routes.empty());
}

TEST(Routes, WithoutARestOtherClassesHaveNoRoute) {
  const Routes routes = Routes::Parse("2=rois+shapes");
  EXPECT_EQ(routes.Find(2), (Route{0, 0}));
  EXPECT_EQ(routes.Find(0), std::nullopt);
}

TEST(Routes, AnEmptyTextHasNoRoutes) {
  for (const char* text : {"", "  \n"}) {
    EXPECT_TRUE(Routes::Parse(text).empty());
    EXPECT_EQ(Routes::Parse(text).Find(0), std::nullopt);
  }
}

struct Rejected {
  const char* text;
  const char* message;
};

void PrintTo(const Rejected& rejected, std::ostream* out) { *out << rejected.text; }

class RejectedRoutes : public ::testing::TestWithParam<Rejected> {};

TEST_P(RejectedRoutes, WithAMessage) {
  EXPECT_TRUE(testing::Throws(ErrorCode::kInvalidArgument, GetParam().message,
                              [] { Routes::Parse(GetParam().text); }));
}

INSTANTIATE_TEST_SUITE_P(
    Texts, RejectedRoutes,
    ::testing::Values(Rejected{"0=rois", "has the entry '0=rois': give CLASSES="},
                      Rejected{"rois+shapes", "has the entry 'rois+shapes'"},
                      Rejected{"0=rois+shapes,", "has the entry ''"},
                      Rejected{"0=+shapes", "a model's name missing"},
                      Rejected{"0=rois+", "a model's name missing"},
                      Rejected{"x=rois+shapes", "has the class 'x'"},
                      Rejected{"-1=rois+shapes", "has the class '-1'"},
                      Rejected{"1|=rois+shapes", "has the class ''"},
                      Rejected{"99999999999=rois+shapes", "has the class '99999999999'"},
                      Rejected{"1=a+b, 2|1=a+b", "names class 1 twice"},
                      Rejected{"1|1=a+b", "names class 1 twice"},
                      Rejected{"*=a+b, *=a+c", "names * twice"},
                      Rejected{"*|1=a+b", "has the class '*'"}));

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
