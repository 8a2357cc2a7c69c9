#include "tracking/assignment.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace endcap {

uint32_t Assignment::FindRoot(uint32_t node) {
  while (parents_[node] != node) {
    parents_[node] = parents_[parents_[node]];
    node = parents_[node];
  }
  return node;
}

std::span<const Edge> Assignment::Solve(std::span<const Edge> edges, size_t rows, size_t columns) {
  chosen_.clear();
  parents_.resize(rows + columns);
  std::iota(parents_.begin(), parents_.end(), 0U);
  const auto row_node = [](const Edge& edge) { return static_cast<uint32_t>(edge.row); };
  for (const Edge& edge : edges) {
    const auto column = static_cast<uint32_t>(rows + static_cast<size_t>(edge.column));
    parents_[FindRoot(row_node(edge))] = FindRoot(column);
  }
  sorted_.assign(edges.begin(), edges.end());
  std::sort(sorted_.begin(), sorted_.end(), [&](const Edge& a, const Edge& b) {
    const uint32_t root_a = FindRoot(row_node(a));
    const uint32_t root_b = FindRoot(row_node(b));
    if (root_a != root_b) return root_a < root_b;
    return a.row != b.row ? a.row < b.row : a.column < b.column;
  });
  row_places_.assign(rows, -1);
  column_places_.assign(columns, -1);
  for (size_t first = 0; first < sorted_.size();) {
    const uint32_t root = FindRoot(row_node(sorted_[first]));
    size_t end = first + 1;
    while (end < sorted_.size() && FindRoot(row_node(sorted_[end])) == root) ++end;
    SolvePart(std::span(sorted_).subspan(first, end - first));
    first = end;
  }
  std::sort(chosen_.begin(), chosen_.end(),
            [](const Edge& a, const Edge& b) { return a.row < b.row; });
  return chosen_;
}

std::span<const Edge> Assignment::SolveAll(size_t rows, size_t columns, const BestOfRow& best,
                                           const FillRow& fill) {
  chosen_.clear();
  costs_.resize(rows * columns);
  is_filled_.assign(rows, 0);
  fill_ = &fill;
  Begin(rows, columns);
  for (size_t row = 0; row < rows; ++row) {
    const Best choice = best(row);
    TakeFirstChoice(row, choice.column, -choice.gain);
  }
  for (size_t row = 0; row < rows; ++row) {
    if (is_matched_[row] == 0) AddRow(row, columns);
  }
  fill_ = nullptr;
  for (size_t column = 0; column < columns; ++column) {
    if (row_of_[column] >= 0) chosen_.push_back({row_of_[column], static_cast<int32_t>(column), 0});
  }
  std::ranges::sort(chosen_, {}, &Edge::row);
  return chosen_;
}

void Assignment::SolvePart(std::span<const Edge> part) {
  const auto same_row = [&](const Edge& edge) { return edge.row == part[0].row; };
  const auto same_column = [&](const Edge& edge) { return edge.column == part[0].column; };
  if (std::ranges::all_of(part, same_row) || std::ranges::all_of(part, same_column)) {
    chosen_.push_back(*std::ranges::max_element(part, {}, &Edge::gain));
    return;
  }
  SolveMatrix(part);
}

// The Hungarian method with potentials: rows get their cheapest columns, and those that are left
// are added one after the other. A pair without an edge costs 0 and stands for no match, the others
// cost less. The matrix has no more rows than columns.
void Assignment::SolveMatrix(std::span<const Edge> part) {
  row_ids_.clear();
  column_ids_.clear();
  const auto place = [](int32_t id, std::vector<int32_t>& places, std::vector<int32_t>& ids) {
    int32_t& known = places[static_cast<size_t>(id)];
    if (known >= 0) return;
    known = static_cast<int32_t>(ids.size());
    ids.push_back(id);
  };
  for (const Edge& edge : part) {
    place(edge.row, row_places_, row_ids_);
    place(edge.column, column_places_, column_ids_);
  }
  const bool is_tall = row_ids_.size() > column_ids_.size();
  const size_t rows = std::min(row_ids_.size(), column_ids_.size());
  const size_t columns = std::max(row_ids_.size(), column_ids_.size());
  costs_.assign(rows * columns, 0.0);
  const auto cost = [&](const Edge& edge) -> double& {
    const auto row = static_cast<size_t>(row_places_[static_cast<size_t>(edge.row)]);
    const auto column = static_cast<size_t>(column_places_[static_cast<size_t>(edge.column)]);
    return is_tall ? costs_[column * columns + row] : costs_[row * columns + column];
  };
  for (const Edge& edge : part) cost(edge) = -edge.gain;
  Begin(rows, columns);
  for (size_t row = 0; row < rows; ++row) {
    const auto first = costs_.begin() + static_cast<ptrdiff_t>(row * columns);
    const auto cheapest = std::min_element(first, first + static_cast<ptrdiff_t>(columns));
    TakeFirstChoice(row, static_cast<size_t>(cheapest - first), *cheapest);
  }
  for (size_t row = 0; row < rows; ++row) {
    if (is_matched_[row] == 0) AddRow(row, columns);
  }
  for (const Edge& edge : part) {
    auto row = static_cast<size_t>(row_places_[static_cast<size_t>(edge.row)]);
    auto column = static_cast<size_t>(column_places_[static_cast<size_t>(edge.column)]);
    if (is_tall) std::swap(row, column);
    if (row_of_[column] == static_cast<int32_t>(row)) chosen_.push_back(edge);
  }
}

void Assignment::Begin(size_t rows, size_t columns) {
  row_potentials_.assign(rows, 0.0);
  column_potentials_.assign(columns, 0.0);
  row_of_.assign(columns, -1);
  is_matched_.assign(rows, 0);
}

// A row's cheapest column is its potential, and its match where no other row has the column.
void Assignment::TakeFirstChoice(size_t row, size_t column, double cost) {
  row_potentials_[row] = cost;
  if (row_of_[column] >= 0) return;
  row_of_[column] = static_cast<int32_t>(row);
  is_matched_[row] = 1;
}

const double* Assignment::CostsOf(size_t row, size_t columns) {
  double* costs = costs_.data() + row * columns;
  if (fill_ != nullptr && is_filled_[row] == 0) {
    is_filled_[row] = 1;
    const std::span<double> gains(costs, columns);
    (*fill_)(row, gains);
    for (double& gain : gains) gain = -gain;
  }
  return costs;
}

// Gives the row a column by the cheapest path of columns that change their rows (Dijkstra over the
// costs less potentials, which are never below 0).
void Assignment::AddRow(size_t row, size_t columns) {
  constexpr double kFar = std::numeric_limits<double>::infinity();
  distances_.assign(columns, kFar);
  previous_.assign(columns, -1);
  is_settled_.assign(columns, 0);
  size_t from_row = row;
  int32_t from_column = -1;
  double distance = 0.0;
  for (;;) {
    size_t nearest = columns;
    const double* costs = CostsOf(from_row, columns);
    for (size_t column = 0; column < columns; ++column) {
      if (is_settled_[column] != 0) continue;
      const double through =
          distance + costs[column] - row_potentials_[from_row] - column_potentials_[column];
      if (through < distances_[column]) {
        distances_[column] = through;
        previous_[column] = from_column;
      }
      if (nearest == columns || distances_[column] < distances_[nearest]) nearest = column;
    }
    distance = distances_[nearest];
    is_settled_[nearest] = 1;
    from_column = static_cast<int32_t>(nearest);
    if (row_of_[nearest] < 0) break;
    from_row = static_cast<size_t>(row_of_[nearest]);
  }
  row_potentials_[row] += distance;
  for (size_t column = 0; column < columns; ++column) {
    if (is_settled_[column] == 0) continue;
    const double less = distance - distances_[column];
    column_potentials_[column] -= less;
    if (row_of_[column] >= 0) row_potentials_[static_cast<size_t>(row_of_[column])] += less;
  }
  for (int32_t column = from_column; column >= 0;) {
    const int32_t before = previous_[static_cast<size_t>(column)];
    row_of_[static_cast<size_t>(column)] =
        before < 0 ? static_cast<int32_t>(row) : row_of_[static_cast<size_t>(before)];
    column = before;
  }
}

}  // namespace endcap
