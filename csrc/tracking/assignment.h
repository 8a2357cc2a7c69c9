#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "common/score_order.h"

namespace endcap {

// A row and a column that may be matched, and what is gained by it.
struct Edge {
  int32_t row;
  int32_t column;
  double gain;
};

// The Hungarian method with potentials: rows get their best columns, and those that are left are
// added one after the other, each by the shortest path of rows that change their columns. Costs
// are gains below 0; less the potentials of row and column they are never below 0, and 0 for what
// is matched.
class Assignment {
 public:
  // Chooses edges, at most one for each row and each column, whose gains add up to the most; each
  // is greater than 0. Returns them in the order of their rows, until the next call. Every row is
  // below `rows`, every column below `columns`, and no pair comes twice.
  std::span<const Edge> Solve(std::span<const Edge> edges, size_t rows, size_t columns);

  // Where all pairs may be matched, and each row gets a column; there are no more rows than
  // columns. Gains may be below 0, and those of the result are not set.
  // - edges: the pairs that may gain more than `most_other`.
  // - fill(row, gains): the gains of a row with all columns, but for its edges. Few rows need it:
  //   most get columns that edges lead to.
  using FillRow = std::function<void(size_t row, std::span<double> gains)>;
  std::span<const Edge> SolveAll(std::span<const Edge> edges, double most_other, size_t rows,
                                 size_t columns, const FillRow& fill);

  // Frees what a call of unusual size has left.
  void Trim() { TrimScratch(sorted_, costs_); }

 private:
  void Begin(std::span<const Edge> edges, size_t rows, size_t columns);
  std::span<const Edge> EdgesOf(size_t row) const;
  void TakeFirstChoice(size_t row, size_t column, double cost);
  void AddRowByEdges(size_t row);
  void AddRow(size_t row, double most_other, const FillRow& fill);
  std::span<const double> Fill(size_t row, const FillRow& fill);
  void Reach(size_t row, double distance);
  void ReachAll(size_t row, double distance);
  bool Shorten(size_t row, size_t column, double distance);
  void Push(double distance, int32_t id);
  int32_t TakeNearest();
  void EndSearch(size_t row, double distance, int32_t column);

  std::vector<Edge> chosen_;
  std::vector<Edge> sorted_;        // by row
  std::vector<size_t> first_edge_;  // of each row in sorted_, and the end
  std::vector<double> costs_;       // [rows][columns], of SolveAll
  std::vector<uint8_t> is_filled_;  // of rows: whether they are in costs_
  std::vector<double> row_potentials_, column_potentials_;
  std::vector<int32_t> column_of_;  // of each row; -1: none yet
  std::vector<int32_t> row_of_;     // of each column; -1: none yet

  // Of a search. Between searches no column has a distance, and none is settled.
  std::vector<double> distances_;    // of columns
  std::vector<int32_t> previous_;    // the row before each column
  std::vector<uint8_t> is_settled_;  // of columns
  std::vector<int32_t> touched_;     // columns with a distance
  std::vector<int32_t> shortened_;   // columns that a row has brought nearer
  double nearest_free_ = 0.0;        // of the columns without a row that ReachAll has seen
  // A heap of distances with columns, or with ~row: its other columns are no nearer than that.
  std::vector<std::pair<double, int32_t>> nearest_;
};

}  // namespace endcap
