#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "endcap/cascade.h"
#include "triton_util/composing_call.h"

namespace endcap::bls {

// A detection that is to be classified.
struct SelectedRow {
  size_t row = 0;  // of the image's detections
  Route route;
  bool operator==(const SelectedRow&) const = default;
};

// Returns the rows whose score is greater than the threshold and whose class has a route, in their
// order. scores, class_ids: of the valid rows, of equal length.
std::vector<SelectedRow> SelectRows(std::span<const float> scores,
                                    std::span<const int32_t> class_ids, double threshold,
                                    const Routes& routes);

// Adjacent items of a list, for one call.
struct Range {
  size_t first = 0;
  size_t count = 0;
  bool operator==(const Range&) const = default;
};

// Divides `count` items into ranges of at most `limit` (1 or more).
std::vector<Range> SplitIntoRanges(size_t count, size_t limit);

// Divides a range into the parts of each request. owners: the request of each item; items of one
// request are adjacent.
std::vector<Range> SplitByOwner(const Range& range, std::span<const size_t> owners);

}  // namespace endcap::bls

namespace endcap::triton {

// One item's part of an output of a composing model, without the batch dimension. In host memory
// unless noted otherwise. Owned by the call.
struct ItemTensor {
  std::vector<int64_t> shape;
  MemoryBlock memory;

  template <typename T>
  const T* Data() const noexcept {
    return reinterpret_cast<const T*>(memory.data);
  }
};

// The items of an output.
struct ItemCount {
  size_t count = 1;
  bool batched = false;  // the first dimension is `count`
};

// Divides an output into its items. Throws ComposingModelError if it has another type or number of
// items, or is not in host memory.
std::vector<ItemTensor> SplitItems(const ComposingCall& call, std::string_view name, DType dtype,
                                   const ItemCount& items);
// The same for an output of any type but BYTES, in any memory.
std::vector<ItemTensor> SplitItems(const ComposingCall& call, std::string_view name,
                                   const ItemCount& items);

// Returns the first element of each item of a BYTES output.
std::vector<std::string> FirstStrings(const ComposingCall& call, std::string_view name,
                                      const ItemCount& items);

}  // namespace endcap::triton
