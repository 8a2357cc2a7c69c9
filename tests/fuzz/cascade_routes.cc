// The parameter `classifiers` of a cascade: refused, or read so that every class has one route.

#include "agreement.h"
#include "endcap/cascade.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace endcap;
  using namespace endcap::fuzz;
  const std::string text(data, data + size);
  Capture([&](Outcome&) {
    const Routes routes = Routes::Parse(text);
    for (int class_id = -1; class_id < 40; ++class_id) {
      const auto route = routes.Find(class_id);
      if (!route) continue;
      Require(!routes.empty(), "no routes, and one for class ", class_id);
      Require(route->rois_model < routes.rois_models().size() &&
                  route->classifier < routes.classifiers().size(),
              "the route of class ", class_id, " names no model");
      Require(!routes.rois_models()[route->rois_model].empty() &&
                  !routes.classifiers()[route->classifier].empty(),
              "the route of class ", class_id, " has a model without a name");
    }
  });
  return 0;
}
