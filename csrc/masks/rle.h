#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/score_order.h"

namespace endcap {

// The RLE of a mask as COCO's API defines them (pycocotools, maskApi): pixels in
// column-major order, alternating lengths of runs outside and inside, the first outside and
// possibly 0.
class RleCounts {
 public:
  void Clear() {
    counts_.clear();
    end_ = 0;
  }

  // Adds the pixels [begin, end) as inside. `begin` is not below the `end` of earlier calls.
  void Add(uint32_t begin, uint32_t end) {
    if (begin == end) return;
    if (begin == end_ && !counts_.empty()) {
      counts_.back() += end - begin;
    } else {
      counts_.push_back(begin - end_);
      counts_.push_back(end - begin);
    }
    end_ = end;
  }

  // Whether Add has been called since Clear.
  bool empty() const noexcept { return counts_.empty(); }

  // Writes the compressed string of a mask of `pixels` pixels: each length, from the fourth on
  // minus the one two before, in groups of 5 bits, the lowest first.
  void Write(uint32_t pixels, std::string& rle);

  void Trim() { TrimScratch(counts_); }

 private:
  std::vector<uint32_t> counts_;
  uint32_t end_ = 0;  // of the last run
};

}  // namespace endcap
