#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace endcap::bls {

// Neighbours in a list of items that go through a model together.
struct Range {
  size_t first = 0;
  size_t count = 0;
  bool operator==(const Range&) const = default;
};

// All of `count` items, at most `limit` (1 or more) in a range.
std::vector<Range> InRanges(size_t count, size_t limit);

// The parts of a range that belong to one request each. owners: the request of each item, items
// of one request beside each other.
std::vector<Range> SplitRange(const Range& range, std::span<const size_t> owners);

}  // namespace endcap::bls
