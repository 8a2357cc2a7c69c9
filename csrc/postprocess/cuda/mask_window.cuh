#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "masks/masks.h"
#include "postprocess/cuda/mask_logits.cuh"

// The part of a mask in its box, by the threads of a block.

namespace endcap {

// One column of a mask's pixels, interpolated along x between two columns of logits. Rows are
// counted from the first of the box.
struct MaskColumn {
  const float* left;
  const float* right;
  float weight;    // of the right one
  uint32_t pitch;  // from one row of the logits to the next
  uint32_t rows;   // of the logits
  const uint32_t* cells;
  const float* weights;

  __device__ float Value(uint32_t row) const {
    const uint64_t place = uint64_t{row} * pitch;
    return Interpolate(left[place], right[place], weight);
  }

  // From row to row of the logits, and only where their signs differ from pixel to pixel. `inside`:
  // whether the pixel before the first is. Calls change(row) where a pixel differs from the one
  // before; returns whether the last is inside.
  template <typename Change>
  __device__ bool ForEachChange(bool inside, Change change) const {
    float from = Value(0);
    for (uint32_t row = 0; row < rows; ++row) {
      const float to = row + 1 < rows ? Value(row + 1) : from;
      const uint32_t end = cells[row + 1];
      const bool one_sided = IsOneSided(from, to);
      for (uint32_t pixel = cells[row]; pixel < end; ++pixel) {
        const bool is_inside = one_sided ? from > 0.0F : Interpolate(from, to, weights[pixel]) > 0;
        if (is_inside != inside) change(pixel);
        inside = is_inside;
        if (one_sided) break;
      }
      from = to;
    }
    return inside;
  }

  // One pixel.
  __device__ bool IsInsideAt(uint32_t pixel) const {
    uint32_t row = 0;
    for (uint32_t last = rows; row + 1 < last;) {
      const uint32_t middle = row + (last - row) / 2;
      if (cells[middle] <= pixel) {
        row = middle;
      } else {
        last = middle;
      }
    }
    const float from = Value(row);
    return Interpolate(from, row + 1 < rows ? Value(row + 1) : from, weights[pixel]) > 0;
  }
};

// The parts of a block's scratch, one behind the other.
struct BoxWindow {
  MaskPixels pixels;
  PixelRange columns, rows;  // of the prototypes
  float* logits;             // [rows][columns]
  float* weights;            // of the pixels' rows
  uint32_t* cells;           // [rows + 1]: the first pixel whose upper row is this one, or a later
  uint32_t* changes;         // of each column of pixels

  __device__ uint64_t logit_count() const { return uint64_t{rows.size()} * columns.size(); }
  __device__ uint64_t words() const {
    return logit_count() + pixels.rows.size() + rows.size() + 1 + pixels.columns.size();
  }
  __device__ void PlaceAt(uint32_t* scratch) {
    logits = reinterpret_cast<float*>(scratch);
    weights = logits + logit_count();
    cells = reinterpret_cast<uint32_t*>(weights + pixels.rows.size());
    changes = cells + rows.size() + 1;
  }
};

// Returns whether all are finite.
__device__ inline bool MakeWindowLogits(const MaskSource& source, const BoxWindow& window,
                                        uint32_t detection, CandidateState& state) {
  const uint32_t width = window.columns.size();
  int is_bad = 0;
  for (uint64_t i = threadIdx.x; i < window.logit_count(); i += blockDim.x) {
    const auto place = static_cast<uint32_t>(i);
    const MaskPlace pixel = {static_cast<uint32_t>(window.rows.begin) + place / width,
                             static_cast<uint32_t>(window.columns.begin) + place % width};
    const float logit = source.Logit(pixel.row, pixel.column);
    window.logits[i] = logit;
    if (IsFinite(logit)) continue;
    NoteBadLogit(state, detection, pixel);
    is_bad = 1;
  }
  return __syncthreads_or(is_bad) == 0;
}

// The weights of the pixels' rows, and which of those lie between two rows of the prototypes.
__device__ inline void MakeCells(const MaskAxis& axis, const BoxWindow& window) {
  const uint32_t count = window.pixels.rows.size();
  const auto row_of = [&](uint32_t i) {
    const MaskTap tap = TapAt(axis, window.pixels.rows.begin + static_cast<int>(i));
    return static_cast<uint32_t>(tap.first - window.rows.begin);
  };
  for (uint32_t i = threadIdx.x; i <= count; i += blockDim.x) {
    const uint32_t from = i == 0 ? 0 : row_of(i - 1) + 1;
    const uint32_t to = i == count ? window.rows.size() : row_of(i);
    for (uint32_t row = from; row <= to; ++row) window.cells[row] = i;
    if (i == count) continue;
    window.weights[i] = TapAt(axis, window.pixels.rows.begin + static_cast<int>(i)).weight;
  }
}

__device__ inline MaskColumn MakeColumn(const BoxWindow& window, const MaskAxes& axes, int x) {
  const MaskTap tap = TapAt(axes.x, x);
  return {window.logits + (tap.first - window.columns.begin),
          window.logits + (tap.second - window.columns.begin),
          tap.weight,
          window.columns.size(),
          window.rows.size(),
          window.cells,
          window.weights};
}

// Calls change(number of the pixel in the mask) wherever a run ends in column x, or another begins.
// Where the columns are as high as the mask, the pixel after a column's last is the next one's
// first.
template <typename Change>
__device__ void ForEachChange(const BoxWindow& window, const MaskAxes& axes, int x, Change change) {
  const PixelRange& columns = window.pixels.columns;
  const PixelRange& rows = window.pixels.rows;
  const bool is_whole = rows.begin == 0 && rows.end == axes.y.pixels;
  const auto first = static_cast<uint32_t>(x) * static_cast<uint32_t>(axes.y.pixels) +
                     static_cast<uint32_t>(rows.begin);
  const bool goes_on =
      is_whole && x > columns.begin && MakeColumn(window, axes, x - 1).IsInsideAt(rows.size() - 1);
  const bool inside = MakeColumn(window, axes, x).ForEachChange(goes_on, [&](uint32_t row) {
    change(first + row);
  });
  const bool next_tells = is_whole && x + 1 < columns.end;
  if (inside && !next_tells) change(first + rows.size());
}

}  // namespace endcap
