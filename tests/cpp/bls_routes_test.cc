#include <gtest/gtest.h>

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "bls/choose.h"
#include "bls/ranges.h"
#include "bls/routes.h"
#include "error_matchers.h"

namespace endcap::bls {
namespace {

using Names = std::vector<std::string>;

TEST(Routes, EachClassGoesItsWayAndTheRestTheirs) {
  const Routes routes = Routes::Parse(" 5 = rois+rings ,0|3=rois + shapes,* =other_rois+shapes ");
  EXPECT_EQ(routes.rois_models(), (Names{"rois", "other_rois"}));
  EXPECT_EQ(routes.classifiers(), (Names{"rings", "shapes"}));
  EXPECT_EQ(routes.Of(5), (Route{0, 0}));
  EXPECT_EQ(routes.Of(0), (Route{0, 1}));
  EXPECT_EQ(routes.Of(3), (Route{0, 1}));
  EXPECT_EQ(routes.Of(1), (Route{1, 1}));
  EXPECT_EQ(routes.Of(-1), (Route{1, 1}));
  EXPECT_FALSE(routes.empty());
}

TEST(Routes, WithoutARestOtherClassesHaveNone) {
  const Routes routes = Routes::Parse("2=rois+shapes");
  EXPECT_EQ(routes.Of(2), (Route{0, 0}));
  EXPECT_EQ(routes.Of(0), std::nullopt);
}

TEST(Routes, AnEmptyTextRoutesNothing) {
  for (const char* text : {"", "  \n"}) {
    EXPECT_TRUE(Routes::Parse(text).empty());
    EXPECT_EQ(Routes::Parse(text).Of(0), std::nullopt);
  }
}

struct Refused {
  const char* text;
  const char* says;
};

void PrintTo(const Refused& refused, std::ostream* out) { *out << refused.text; }

class RefusedRoutes : public ::testing::TestWithParam<Refused> {};

TEST_P(RefusedRoutes, WithAMessage) {
  EXPECT_TRUE(testing::Throws(ErrorCode::kInvalidArgument, GetParam().says,
                              [] { Routes::Parse(GetParam().text); }));
}

INSTANTIATE_TEST_SUITE_P(
    Texts, RefusedRoutes,
    ::testing::Values(
        Refused{"0=rois", "has the entry '0=rois': give CLASSES="},
        Refused{"rois+shapes", "has the entry 'rois+shapes'"},
        Refused{"0=rois+shapes,", "has the entry ''"},
        Refused{"0=+shapes", "a model's name missing"},
        Refused{"0=rois+", "a model's name missing"}, Refused{"x=rois+shapes", "has the class 'x'"},
        Refused{"-1=rois+shapes", "has the class '-1'"},
        Refused{"1|=rois+shapes", "has the class ''"},
        Refused{"99999999999=rois+shapes", "has the class '99999999999'"},
        Refused{"1=a+b, 2|1=a+b", "names class 1 twice"}, Refused{"1|1=a+b", "names class 1 twice"},
        Refused{"*=a+b, *=a+c", "names * twice"}, Refused{"*|1=a+b", "has the class '*'"}));

TEST(Choose, RowsAboveTheThresholdThatHaveARoute) {
  const Routes routes = Routes::Parse("0=rois+shapes,2=rois+rings");
  const std::vector<float> scores{0.9F, 0.8F, 0.5F, 0.25F, 0.2F};
  const std::vector<int32_t> class_ids{2, 1, 0, 0, 0};
  EXPECT_EQ(Choose(scores, class_ids, 0.25, routes),
            (std::vector<Chosen>{{0, {0, 1}}, {2, {0, 0}}}));
  EXPECT_TRUE(Choose(scores, class_ids, 1.0, routes).empty());
  EXPECT_TRUE(Choose({}, {}, 0.0, routes).empty());
}

TEST(Choose, ComparesInDoublePrecisionAsTheCoreDoes) {
  const Routes routes = Routes::Parse("*=rois+shapes");
  const std::vector<float> scores{0.1F};  // a little more than the double 0.1
  const std::vector<int32_t> class_ids{0};
  EXPECT_EQ(Choose(scores, class_ids, 0.1, routes).size(), 1U);
  EXPECT_TRUE(Choose(scores, class_ids, static_cast<double>(0.1F), routes).empty());
}

TEST(Ranges, HoldAllItemsAndNoMoreThanTheLimit) {
  EXPECT_EQ(InRanges(7, 3), (std::vector<Range>{{0, 3}, {3, 3}, {6, 1}}));
  EXPECT_EQ(InRanges(3, 3), (std::vector<Range>{{0, 3}}));
  EXPECT_TRUE(InRanges(0, 3).empty());
}

TEST(Ranges, FallIntoTheSharesOfTheirRequests) {
  const std::vector<size_t> owners{0, 0, 1, 3, 3, 3};
  EXPECT_EQ(SplitRange({0, 6}, owners), (std::vector<Range>{{0, 2}, {2, 1}, {3, 3}}));
  EXPECT_EQ(SplitRange({1, 3}, owners), (std::vector<Range>{{1, 1}, {2, 1}, {3, 1}}));
  EXPECT_EQ(SplitRange({4, 2}, owners), (std::vector<Range>{{4, 2}}));
}

}  // namespace
}  // namespace endcap::bls
