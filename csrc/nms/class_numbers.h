#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace endcap {

// Class ids of any value as numbers from 0, by which tables can be indexed. Ids that lie close to
// each other keep their distance; others become their rank.
class ClassNumbers {
 public:
  // An empty span means boxes of one class.
  void Assign(std::span<const int32_t> class_ids) {
    ids_ = class_ids;
    ranked_.clear();
    count_ = 1;
    if (ids_.empty()) return;
    const auto [least, greatest] = std::minmax_element(ids_.begin(), ids_.end());
    first_ = *least;
    const int64_t range = int64_t{*greatest} - first_ + 1;
    if (range <= std::max<int64_t>(kTableSize, std::ssize(ids_))) {
      count_ = static_cast<size_t>(range);
      return;
    }
    ranked_.assign(ids_.begin(), ids_.end());
    std::sort(ranked_.begin(), ranked_.end());
    ranked_.erase(std::unique(ranked_.begin(), ranked_.end()), ranked_.end());
    count_ = ranked_.size();
  }

  // The number of box `index`, below count().
  size_t operator[](size_t index) const {
    if (ids_.empty()) return 0;
    if (ranked_.empty()) return static_cast<size_t>(int64_t{ids_[index]} - first_);
    const auto place = std::lower_bound(ranked_.begin(), ranked_.end(), ids_[index]);
    return static_cast<size_t>(place - ranked_.begin());
  }

  size_t count() const noexcept { return count_; }
  std::vector<int32_t>& memory() noexcept { return ranked_; }

 private:
  static constexpr int64_t kTableSize = 1024;

  std::span<const int32_t> ids_;
  std::vector<int32_t> ranked_;
  int64_t first_ = 0;
  size_t count_ = 1;
};

}  // namespace endcap
