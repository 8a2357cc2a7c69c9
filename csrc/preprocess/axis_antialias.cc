#include <algorithm>
#include <cmath>
#include <vector>

#include "preprocess/axis_methods.h"

namespace endcap {

// The kernel's samples are normalised to sum 1; computed in double. Source of the window and its
// rounding: Pillow's resample.
AxisTaps AntialiasTaps(const AxisRequest& request, TapWeights weights, const FilterKernel& kernel) {
  const double scale = static_cast<double>(request.source_size) / request.resized_size;
  const double filter_scale = std::max(scale, 1.0);
  const double support = kernel.support * filter_scale;
  const int taps = std::min(static_cast<int>(std::ceil(support)) * 2 + 1, request.source_size);
  AxisTaps axis = AllocateTaps(weights, request.count, taps);
  std::vector<double> values(static_cast<size_t>(taps));
  for (int i = 0; i < request.count; ++i) {
    const double center = (request.begin + i + 0.5) * scale;
    // NOLINTBEGIN(bugprone-incorrect-roundings): Pillow's, which truncates towards zero
    const int begin = std::max(static_cast<int>(center - support + 0.5), 0);
    const int end = std::min(static_cast<int>(center + support + 0.5), request.source_size);
    // NOLINTEND(bugprone-incorrect-roundings)
    double total = 0.0;
    for (int k = 0; k < end - begin; ++k) {
      const double value = kernel.value((k + begin - center + 0.5) * (1.0 / filter_scale));
      values[static_cast<size_t>(k)] = value;
      total += value;
    }
    for (int k = 0; k < taps; ++k) {
      const size_t entry = axis.Offset(i) + static_cast<size_t>(k);
      axis.index[entry] = std::min(begin + k, end - 1);
      const bool used = k < end - begin;
      SetWeight(axis, weights, entry, used ? values[static_cast<size_t>(k)] / total : 0.0);
    }
  }
  return axis;
}

}  // namespace endcap
