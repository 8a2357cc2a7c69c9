#include "tracking/assignment.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

namespace endcap {
namespace {

constexpr double kFar = std::numeric_limits<double>::infinity();
constexpr int32_t kNothing = std::numeric_limits<int32_t>::max();

}  // namespace

std::span<const Edge> Assignment::Solve(std::span<const Edge> edges, size_t rows, size_t columns) {
  Begin(edges, rows, columns);
  for (size_t row = 0; row < rows; ++row) {
    const auto own = EdgesOf(row);
    if (own.empty()) continue;
    const auto best = std::ranges::max_element(own, {}, &Edge::gain);
    TakeFirstChoice(row, static_cast<size_t>(best->column), -best->gain);
  }
  for (size_t row = 0; row < rows; ++row) {
    if (column_of_[row] < 0 && !EdgesOf(row).empty()) AddRowByEdges(row);
  }
  for (const Edge& edge : sorted_) {
    if (column_of_[static_cast<size_t>(edge.row)] == edge.column) chosen_.push_back(edge);
  }
  return chosen_;
}

std::span<const Edge> Assignment::SolveAll(std::span<const Edge> edges, double most_other,
                                           size_t rows, size_t columns, const FillRow& fill) {
  Begin(edges, rows, columns);
  costs_.resize(rows * columns);
  is_filled_.assign(rows, 0);
  for (size_t row = 0; row < rows; ++row) {
    const auto own = EdgesOf(row);
    const auto best = std::ranges::max_element(own, {}, &Edge::gain);
    if (best != own.end() && best->gain >= most_other) {
      TakeFirstChoice(row, static_cast<size_t>(best->column), -best->gain);
    } else {
      const auto costs = Fill(row, fill);
      const auto least = std::ranges::min_element(costs);
      TakeFirstChoice(row, static_cast<size_t>(least - costs.begin()), *least);
    }
  }
  for (size_t row = 0; row < rows; ++row) {
    if (column_of_[row] < 0) AddRow(row, most_other, fill);
    chosen_.push_back({static_cast<int32_t>(row), -1, 0.0});
  }
  for (size_t row = 0; row < rows; ++row) chosen_[row].column = column_of_[row];
  return chosen_;
}

void Assignment::Begin(std::span<const Edge> edges, size_t rows, size_t columns) {
  chosen_.clear();
  sorted_.assign(edges.begin(), edges.end());
  std::ranges::sort(sorted_, [](const Edge& a, const Edge& b) {
    return a.row != b.row ? a.row < b.row : a.column < b.column;
  });
  first_edge_.assign(rows + 1, 0);
  for (const Edge& edge : sorted_) ++first_edge_[static_cast<size_t>(edge.row) + 1];
  std::partial_sum(first_edge_.begin(), first_edge_.end(), first_edge_.begin());
  row_potentials_.assign(rows, 0.0);
  column_potentials_.assign(columns, 0.0);
  column_of_.assign(rows, -1);
  row_of_.assign(columns, -1);
  distances_.assign(columns, kFar);
  previous_.resize(columns);
  is_settled_.assign(columns, 0);
}

std::span<const Edge> Assignment::EdgesOf(size_t row) const {
  return std::span(sorted_).subspan(first_edge_[row], first_edge_[row + 1] - first_edge_[row]);
}

// A row's cheapest column is its potential, and its match where no other row has the column.
void Assignment::TakeFirstChoice(size_t row, size_t column, double cost) {
  row_potentials_[row] = cost;
  if (row_of_[column] >= 0) return;
  row_of_[column] = static_cast<int32_t>(row);
  column_of_[row] = static_cast<int32_t>(column);
}

// The path ends at a column that no row has, or at a row that has none from then on: that costs 0.
void Assignment::AddRowByEdges(size_t row) {
  nearest_.clear();
  size_t from = row;
  double distance = 0.0;
  double end_distance = kFar;
  size_t end_row = row;
  int32_t column = -1;
  for (;;) {
    const double without = distance - row_potentials_[from];
    if (without < end_distance) {
      end_distance = without;
      end_row = from;
    }
    Reach(from, without);
    column = TakeNearest();
    if (column == kNothing || distances_[static_cast<size_t>(column)] >= end_distance) break;
    distance = distances_[static_cast<size_t>(column)];
    is_settled_[static_cast<size_t>(column)] = 1;
    if (row_of_[static_cast<size_t>(column)] < 0) {
      EndSearch(row, distance, column);
      return;
    }
    from = static_cast<size_t>(row_of_[static_cast<size_t>(column)]);
  }
  column = column_of_[end_row];
  column_of_[end_row] = -1;
  EndSearch(row, end_distance, column);
}

// The same where every row has to have a column. Only rows whose edges lead to none in time are
// looked at as a whole.
void Assignment::AddRow(size_t row, double most_other, const FillRow& fill) {
  nearest_.clear();
  nearest_free_ = kFar;
  size_t from = row;
  double distance = 0.0;
  for (;;) {
    const double own = distance - row_potentials_[from];
    if (is_filled_[from] != 0) {
      ReachAll(from, own);
    } else {
      Reach(from, own);
      Push(own - most_other, ~static_cast<int32_t>(from));
    }
    int32_t nearest = TakeNearest();
    for (; nearest < 0; nearest = TakeNearest()) {
      const int32_t number = ~nearest;
      const auto whole = static_cast<size_t>(number);
      const double start = whole == row ? 0.0 : distances_[static_cast<size_t>(column_of_[whole])];
      Fill(whole, fill);
      ReachAll(whole, start - row_potentials_[whole]);
    }
    const auto column = static_cast<size_t>(nearest);
    distance = distances_[column];
    is_settled_[column] = 1;
    if (row_of_[column] < 0) {
      EndSearch(row, distance, nearest);
      return;
    }
    from = static_cast<size_t>(row_of_[column]);
  }
}

// Returns the costs of a row.
std::span<const double> Assignment::Fill(size_t row, const FillRow& fill) {
  const size_t columns = row_of_.size();
  const std::span<double> costs = std::span(costs_).subspan(row * columns, columns);
  if (is_filled_[row] != 0) return costs;
  is_filled_[row] = 1;
  fill(row, costs);
  for (const Edge& edge : EdgesOf(row)) costs[static_cast<size_t>(edge.column)] = edge.gain;
  for (double& cost : costs) cost = -cost;
  return costs;
}

// Takes in the columns of a row's edges; `distance` is the row's own less its potential.
void Assignment::Reach(size_t row, double distance) {
  for (const Edge& edge : EdgesOf(row)) {
    const auto column = static_cast<size_t>(edge.column);
    if (Shorten(row, column, distance - edge.gain)) Push(distances_[column], edge.column);
  }
}

// Takes in all columns of a row. Those beyond a column without a row are not needed.
void Assignment::ReachAll(size_t row, double distance) {
  shortened_.clear();
  const double* costs = costs_.data() + row * row_of_.size();
  for (size_t column = 0; column < row_of_.size(); ++column) {
    if (!Shorten(row, column, distance + costs[column])) continue;
    shortened_.push_back(static_cast<int32_t>(column));
    if (row_of_[column] < 0) nearest_free_ = std::min(nearest_free_, distances_[column]);
  }
  for (const int32_t column : shortened_) {
    const double through = distances_[static_cast<size_t>(column)];
    if (through <= nearest_free_) Push(through, column);
  }
}

// Returns whether a row brings a column nearer, with that distance before the column's potential.
bool Assignment::Shorten(size_t row, size_t column, double distance) {
  const double through = distance - column_potentials_[column];
  if (through >= distances_[column] || is_settled_[column] != 0) return false;
  if (distances_[column] == kFar) touched_.push_back(static_cast<int32_t>(column));
  distances_[column] = through;
  previous_[column] = static_cast<int32_t>(row);
  return true;
}

void Assignment::Push(double distance, int32_t id) {
  nearest_.emplace_back(distance, id);
  std::ranges::push_heap(nearest_, std::greater{});
}

// Returns the column that is nearest of those that are not settled, or ~row, or kNothing.
int32_t Assignment::TakeNearest() {
  while (!nearest_.empty()) {
    std::ranges::pop_heap(nearest_, std::greater{});
    const int32_t id = nearest_.back().second;
    nearest_.pop_back();
    if (id < 0 || is_settled_[static_cast<size_t>(id)] == 0) return id;
  }
  return kNothing;
}

// Updates the potentials for a path of that length to a new row, gives the column to the row before
// it, that row's column to the one before, and so on to the new row.
void Assignment::EndSearch(size_t row, double distance, int32_t column) {
  row_potentials_[row] += distance;
  for (const int32_t each : touched_) {
    const auto touched = static_cast<size_t>(each);
    if (is_settled_[touched] != 0) {
      const double less = distance - distances_[touched];
      column_potentials_[touched] -= less;
      if (row_of_[touched] >= 0) row_potentials_[static_cast<size_t>(row_of_[touched])] += less;
    }
    distances_[touched] = kFar;
    is_settled_[touched] = 0;
  }
  touched_.clear();
  while (column >= 0) {
    const auto before = static_cast<size_t>(previous_[static_cast<size_t>(column)]);
    row_of_[static_cast<size_t>(column)] = static_cast<int32_t>(before);
    column = std::exchange(column_of_[before], column);
  }
}

}  // namespace endcap
