#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bls/routes.h"

namespace endcap::bls {

// A detection that is to be classified.
struct Chosen {
  size_t row = 0;  // of the image's detections
  Route route;
  bool operator==(const Chosen&) const = default;
};

// The rows whose score is greater than the threshold, and whose class has a route; in their order.
// scores, class_ids: the rows that count, of equal length.
std::vector<Chosen> Choose(std::span<const float> scores, std::span<const int32_t> class_ids,
                           double threshold, const Routes& routes);

}  // namespace endcap::bls
