#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/score_order.h"

namespace endcap {

// The run lengths of a mask as COCO's API defines them (pycocotools, maskApi): the pixels column
// after column, lengths of runs outside and inside in turn, the first outside and perhaps 0.
class RleCounts {
 public:
  void Clear() {
    counts_.clear();
    end_ = 0;
  }

  // The pixels [begin, end) are inside. They lie behind those of earlier calls, or follow them.
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

  // The compressed string for a mask of so many pixels: each length, from the fourth on less the
  // one two before, in groups of 5 bits, the lowest first.
  void Write(uint32_t pixels, std::string& rle);

  void Trim() { TrimScratch(counts_); }

 private:
  std::vector<uint32_t> counts_;
  uint32_t end_ = 0;  // of the last run
};

// Throws kImageLimit where the strings of an image's first `masks` masks take too many bytes.
void CheckRleBytes(size_t bytes, size_t masks, int width, int height);

}  // namespace endcap
