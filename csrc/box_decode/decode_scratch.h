#pragma once

#include <cstdint>
#include <vector>

#include "common/score_order.h"

namespace endcap {

// Memory of box_decode that a thread keeps from call to call, so that calls of the same size
// allocate nothing.
struct DecodeScratch {
  std::vector<uint64_t> keys, spare_keys;  // of CandidateList
  std::vector<float> head, scores;         // float16 inputs as float32
  std::vector<uint32_t> passing;           // anchors that a scan found
  std::vector<float> best;                 // an anchor's greatest raw score
  std::vector<int32_t> best_class;         // and whose it is

  void Trim() {
    TrimScratch(keys);
    TrimScratch(spare_keys);
    TrimScratch(head);
    TrimScratch(scores);
    TrimScratch(passing);
    TrimScratch(best);
    TrimScratch(best_class);
  }
};

}  // namespace endcap
