#include "bls/choose.h"

namespace endcap::bls {

std::vector<Chosen> Choose(std::span<const float> scores, std::span<const int32_t> class_ids,
                           double threshold, const Routes& routes) {
  std::vector<Chosen> chosen;
  for (size_t row = 0; row < scores.size(); ++row) {
    if (!(static_cast<double>(scores[row]) > threshold)) continue;
    const std::optional<Route> route = routes.Of(class_ids[row]);
    if (route.has_value()) chosen.push_back({row, *route});
  }
  return chosen;
}

}  // namespace endcap::bls
