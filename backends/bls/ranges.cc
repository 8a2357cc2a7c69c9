#include "bls/ranges.h"

#include <algorithm>

namespace endcap::bls {

std::vector<Range> InRanges(size_t count, size_t limit) {
  std::vector<Range> ranges;
  for (size_t first = 0; first < count; first += limit) {
    ranges.push_back({first, std::min(limit, count - first)});
  }
  return ranges;
}

std::vector<Range> SplitRange(const Range& range, std::span<const size_t> owners) {
  std::vector<Range> shares;
  for (size_t item = range.first; item < range.first + range.count; ++item) {
    if (shares.empty() || owners[item] != owners[item - 1]) shares.push_back({item, 0});
    ++shares.back().count;
  }
  return shares;
}

}  // namespace endcap::bls
