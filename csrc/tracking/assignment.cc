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

std::span<const Edge> Assignment::SolveAll(std::span<const double> gains, size_t rows,
                                           size_t columns) {
  chosen_.clear();
  costs_.resize(gains.size());
  const bool is_tall = rows > columns;
  // Costs are at least 0 for potentials that begin at 0.
  const double most = gains.empty() ? 0.0 : *std::ranges::max_element(gains);
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < columns; ++column) {
      const size_t place = is_tall ? column * rows + row : row * columns + column;
      costs_[place] = most - gains[row * columns + column];
    }
  }
  SolveCosts(std::min(rows, columns), std::max(rows, columns));
  for (size_t i = 0; i < row_of_.size(); ++i) {
    if (row_of_[i] < 0) continue;
    const auto column = static_cast<int32_t>(i);
    chosen_.push_back(is_tall ? Edge{column, row_of_[i], 0.0} : Edge{row_of_[i], column, 0.0});
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

// The Hungarian method with potentials: rows are added one after the other. A pair without an edge
// costs 0 and stands for no match, the others cost less. The matrix has no more rows than columns.
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
  SolveCosts(rows, columns);
  for (const Edge& edge : part) {
    auto row = static_cast<size_t>(row_places_[static_cast<size_t>(edge.row)]);
    auto column = static_cast<size_t>(column_places_[static_cast<size_t>(edge.column)]);
    if (is_tall) std::swap(row, column);
    if (row_of_[column] == static_cast<int32_t>(row)) chosen_.push_back(edge);
  }
}

// The cheapest column for each row of costs_, into row_of_.
void Assignment::SolveCosts(size_t rows, size_t columns) {
  row_potentials_.assign(rows, 0.0);
  column_potentials_.assign(columns, 0.0);
  row_of_.assign(columns, -1);
  for (size_t row = 0; row < rows; ++row) AddRow(row, columns);
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
    for (size_t column = 0; column < columns; ++column) {
      if (is_settled_[column] != 0) continue;
      const double through = distance + costs_[from_row * columns + column] -
                             row_potentials_[from_row] - column_potentials_[column];
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
