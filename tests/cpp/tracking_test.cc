// The tracker's parts, and its limits. Ids are held to the definition in
// tests/python/core/test_tracking.py.

#include "endcap/tracking.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "endcap/error.h"
#include "tracking/assignment.h"
#include "tracking/motion.h"

namespace endcap {
namespace {

// The most that matches can gain, by trying all of them.
double BestGain(const std::vector<Edge>& edges, size_t first, std::set<int32_t>& rows,
                std::set<int32_t>& columns) {
  if (first == edges.size()) return 0.0;
  double best = BestGain(edges, first + 1, rows, columns);
  const Edge& edge = edges[first];
  if (rows.contains(edge.row) || columns.contains(edge.column)) return best;
  rows.insert(edge.row);
  columns.insert(edge.column);
  best = std::max(best, edge.gain + BestGain(edges, first + 1, rows, columns));
  rows.erase(edge.row);
  columns.erase(edge.column);
  return best;
}

TEST(Assignment, GainsTheMost) {
  std::mt19937 random(7);
  const auto below = [&](int limit) {
    return static_cast<int>(random() % static_cast<uint32_t>(limit));
  };
  Assignment assignment;
  for (int round = 0; round < 3000; ++round) {
    const int rows = 1 + below(6);
    const int columns = 1 + below(6);
    std::vector<Edge> edges;
    for (int32_t row = 0; row < rows; ++row) {
      for (int32_t column = 0; column < columns; ++column) {
        if (below(3) != 0 || edges.size() == 14) continue;
        edges.push_back({row, column, (1 + below(20)) / 20.0});  // with ties
      }
    }
    std::shuffle(edges.begin(), edges.end(), random);
    std::set<int32_t> used_rows;
    std::set<int32_t> used_columns;
    const double most = BestGain(edges, 0, used_rows, used_columns);
    double gained = 0.0;
    int32_t last_row = -1;
    for (const Edge& edge :
         assignment.Solve(edges, static_cast<size_t>(rows), static_cast<size_t>(columns))) {
      gained += edge.gain;
      EXPECT_GT(edge.row, last_row);
      last_row = edge.row;
      EXPECT_TRUE(used_columns.insert(edge.column).second);
      EXPECT_EQ(std::ranges::count_if(edges,
                                      [&](const Edge& given) {
                                        return given.row == edge.row &&
                                               given.column == edge.column &&
                                               given.gain == edge.gain;
                                      }),
                1);
    }
    EXPECT_NEAR(gained, most, 1e-12);
  }
}

TEST(AspectMotion, FollowsABoxThatMovesEvenly) {
  const auto box_at = [](double frame) {
    const double x = 100.0 + 3.0 * frame;
    const double y = 50.0 - 2.0 * frame;
    return Corners{x - 20.0, y - 40.0, x + 20.0, y + 40.0};
  };
  AspectMotion motion(box_at(0.0));
  for (int frame = 1; frame <= 40; ++frame) {
    motion.Predict();
    motion.Correct(box_at(frame));
  }
  EXPECT_NEAR(motion.numbers()[0].velocity, 3.0, 0.05);
  EXPECT_NEAR(motion.numbers()[1].velocity, -2.0, 0.05);
  motion.Predict();
  EXPECT_NEAR(motion.box().x1, 203.0, 0.2);
  EXPECT_NEAR(motion.box().y2 - motion.box().y1, 80.0, 1e-6);
}

std::vector<int64_t> Update(Tracker& tracker, const std::vector<float>& boxes,
                            const std::vector<float>& scores,
                            const std::vector<int32_t>& classes = {}) {
  std::vector<int64_t> ids(scores.size());
  tracker.Update(boxes, scores, classes, ids);
  return ids;
}

class EachPreset : public ::testing::TestWithParam<std::string_view> {
 protected:
  const TrackingParams params_ = TrackingPreset(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Tracker, EachPreset, ::testing::ValuesIn(TrackingPresetNames()),
                         [](const auto& tested) { return std::string(tested.param); });

TEST(Tracker, RefusesArraysOfOtherLengths) {
  Tracker tracker(TrackingParams{});
  const std::vector<float> boxes = {0, 0, 10, 10};
  const std::vector<float> scores = {0.9F};
  std::vector<int64_t> ids(1);
  EXPECT_THROW(tracker.Update(std::span(boxes).first(3), scores, {}, ids), Error);
  EXPECT_THROW(tracker.Update(boxes, scores, std::vector<int32_t>{1, 2}, ids), Error);
  EXPECT_THROW(tracker.Update(boxes, scores, {}, std::span(ids).first(0)), Error);
  const std::vector<float> many(4 * (Tracker::kMaxDetections + 1));
  EXPECT_THROW(Update(tracker, many, std::vector<float>(Tracker::kMaxDetections + 1)), Error);
  EXPECT_EQ(tracker.frames(), 0);
  EXPECT_EQ(Update(tracker, boxes, scores), std::vector<int64_t>{1});
}

// The tracks of a frame do not depend on the order of its detections.
TEST_P(EachPreset, TheOrderOfDetectionsOnlyNumbersNewTracks) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> place(0.0F, 900.0F);
  std::vector<std::array<float, 4>> boxes;
  for (int i = 0; i < 40; ++i) {
    const float x = place(random);
    const float y = place(random);
    boxes.push_back({x, y, x + 60.0F, y + 90.0F});
  }
  Tracker one(params_);
  Tracker other(params_);
  std::map<int64_t, int64_t> same;
  std::vector<size_t> order(boxes.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  for (int frame = 0; frame < 20; ++frame) {
    for (auto& box : boxes) {
      for (float& side : box) side += static_cast<float>(frame % 3);
    }
    const std::vector<float> scores(boxes.size(), 0.8F);
    std::vector<float> in_order;
    std::vector<float> shuffled;
    std::shuffle(order.begin(), order.end(), random);
    for (const auto& box : boxes) in_order.insert(in_order.end(), box.begin(), box.end());
    for (const size_t i : order) shuffled.insert(shuffled.end(), boxes[i].begin(), boxes[i].end());
    const auto ids = Update(one, in_order, scores);
    const auto others = Update(other, shuffled, scores);
    for (size_t i = 0; i < order.size(); ++i) {
      EXPECT_EQ(same.emplace(ids[order[i]], others[i]).first->second, others[i]);
    }
  }
}

TEST_P(EachPreset, ExtremeBoxes) {
  constexpr float kMost = Tracker::kFarthest;
  constexpr float kLeast = std::numeric_limits<float>::denorm_min();
  Tracker tracker(params_);
  const std::vector<float> boxes = {-kMost, -kMost, kMost, kMost, 0, 0, kLeast, kLeast,
                                    0,      0,      kMost, 1,     0, 0, 1,      1};
  for (int frame = 0; frame < 60; ++frame) {
    Update(tracker, frame % 3 == 1 ? std::vector<float>{} : boxes,
           frame % 3 == 1 ? std::vector<float>{} : std::vector<float>(4, 0.9F));
    Tracker restored(params_);
    EXPECT_NO_THROW(restored.Restore(tracker.Save()));
  }
  EXPECT_LE(tracker.track_count(), 8U);
  const std::string before = tracker.Save();
  EXPECT_THROW(Update(tracker, {0, 0, 2 * kMost, 1}, {0.9F}), Error);
  EXPECT_EQ(tracker.Save(), before);
}

TEST_P(EachPreset, RestoresNoMoreTracksThanAllowed) {
  Tracker tracker(params_);
  Update(tracker, {0, 0, 9, 9, 50, 0, 59, 9, 90, 0, 99, 9}, {0.9F, 0.9F, 0.9F});
  TrackingParams params = params_;
  params.max_tracks = 2;
  Tracker small(params);
  EXPECT_THROW(small.Restore(tracker.Save()), Error);
  EXPECT_EQ(small.track_count(), 0U);
}

TEST(Tracker, RestoresNoStateOfAnotherPreset) {
  for (const std::string_view name : TrackingPresetNames()) {
    Tracker saved(TrackingPreset(name));
    Update(saved, {0, 0, 10, 10}, {0.9F});
    for (const std::string_view other : TrackingPresetNames()) {
      Tracker restored(TrackingPreset(other));
      if (name == other) {
        EXPECT_NO_THROW(restored.Restore(saved.Save()));
      } else {
        EXPECT_THROW(restored.Restore(saved.Save()), Error);
      }
    }
  }
}

// Against all ways to give each row a column.
TEST(Assignment, GivesEachRowAColumn) {
  std::mt19937 random(11);
  Assignment assignment;
  for (int round = 0; round < 3000; ++round) {
    const size_t rows = 1 + random() % 5;
    const size_t columns = rows + random() % 3;
    std::vector<double> gains(rows * columns);
    for (double& gain : gains) gain = static_cast<double>(random() % 41) / 20.0 - 1.0;
    double gained = 0.0;
    std::set<int32_t> used;
    const auto of_row = [&](size_t row) {
      return std::span(gains).subspan(row * columns, columns);
    };
    // Any part of those that gain little may be left to be filled in.
    const double most_other = static_cast<double>(random() % 41) / 20.0 - 1.0;
    std::vector<Edge> edges;
    for (size_t i = 0; i < gains.size(); ++i) {
      if (gains[i] <= most_other && random() % 4 != 0) continue;
      edges.push_back(
          {static_cast<int32_t>(i / columns), static_cast<int32_t>(i % columns), gains[i]});
    }
    const auto chosen = assignment.SolveAll(edges, most_other, rows, columns,
                                            [&](size_t row, std::span<double> filled) {
                                              std::ranges::copy(of_row(row), filled.begin());
                                            });
    EXPECT_EQ(chosen.size(), rows);
    for (const Edge& edge : chosen) {
      EXPECT_TRUE(used.insert(edge.column).second);
      gained += gains[static_cast<size_t>(edge.row) * columns + static_cast<size_t>(edge.column)];
    }
    std::vector<size_t> order(columns);
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    double best = -1e9;
    do {
      double sum = 0.0;
      for (size_t i = 0; i < rows; ++i) sum += gains[i * columns + order[i]];
      best = std::max(best, sum);
    } while (std::ranges::next_permutation(order).found);
    EXPECT_NEAR(gained, best, 1e-12);
  }
}

}  // namespace
}  // namespace endcap
