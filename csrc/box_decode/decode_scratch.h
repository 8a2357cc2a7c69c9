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
  std::vector<float> anchors;              // as these
  std::vector<uint32_t> passing;           // anchors that a scan found
  std::vector<float> best;                 // an anchor's greatest raw score
  std::vector<int32_t> best_class;         // and whose it is
  std::vector<double> powers;              // of a row's classes, for a softmax

  void Trim() {
    TrimScratch(keys);
    TrimScratch(spare_keys);
    TrimScratch(head);
    TrimScratch(scores);
    TrimScratch(anchors);
    TrimScratch(passing);
    TrimScratch(best);
    TrimScratch(best_class);
    TrimScratch(powers);
  }
};

}  // namespace endcap
