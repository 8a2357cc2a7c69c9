#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "common/score_order.h"

namespace endcap {

// A row and a column that may be matched, and what is gained by it, which is greater than 0.
struct Edge {
  int32_t row;
  int32_t column;
  double gain;
};

// Chooses edges, at most one for each row and each column, whose gains add up to the most. The rows
// and columns that edges join are solved apart from all others: by the Hungarian method, and where
// one row or one column has all edges, by the greatest gain.
class Assignment {
 public:
  // Returns the chosen edges in the order of their rows, until the next call. Every row is below
  // `rows`, every column below `columns`, and no pair comes twice.
  std::span<const Edge> Solve(std::span<const Edge> edges, size_t rows, size_t columns);

  // Where all pairs may be matched, and each row gets a column; there are no more rows than
  // columns. Gains may be below 0, and those of the result are not set. Most rows get the column
  // that is best for them, so their other gains are not needed:
  // - best(row): the column of the greatest gain, and the gain;
  // - fill(row, gains): the gains of the row with all columns.
  // Both give the same numbers.
  struct Best {
    size_t column;
    double gain;
  };
  using BestOfRow = std::function<Best(size_t row)>;
  using FillRow = std::function<void(size_t row, std::span<double> gains)>;
  std::span<const Edge> SolveAll(size_t rows, size_t columns, const BestOfRow& best,
                                 const FillRow& fill);

  // Frees what a call of unusual size has left.
  void Trim() {
    TrimScratch(sorted_);
    TrimScratch(costs_);
  }

 private:
  uint32_t FindRoot(uint32_t node);
  void SolvePart(std::span<const Edge> part);
  void SolveMatrix(std::span<const Edge> part);
  void Begin(size_t rows, size_t columns);
  void TakeFirstChoice(size_t row, size_t column, double cost);
  const double* CostsOf(size_t row, size_t columns);
  void AddRow(size_t row, size_t columns);

  std::vector<Edge> chosen_;
  std::vector<Edge> sorted_;       // by part
  std::vector<uint32_t> parents_;  // of rows, then columns: the trees of the parts
  std::vector<int32_t> row_places_, column_places_;  // in the matrix of a part; -1: not in it
  std::vector<int32_t> row_ids_, column_ids_;        // of a part
  std::vector<double> costs_;                        // [rows][columns] of a part
  const FillRow* fill_ = nullptr;                    // of rows that are not in costs_ yet
  std::vector<uint8_t> is_filled_, is_matched_;      // of rows
  std::vector<double> row_potentials_, column_potentials_;
  std::vector<int32_t> row_of_;  // of each column; -1: none yet
  std::vector<double> distances_;
  std::vector<int32_t> previous_;  // column on the way to each column; -1: the new row
  std::vector<uint8_t> is_settled_;
};

}  // namespace endcap
