#include "bls/detections_of.h"

#include <string>

namespace endcap::triton {

const ItemTensor& FindDetections(const CascadeImage& image, std::string_view output,
                                 const CascadeSettings& settings) {
  const auto found = image.detections.find(output);
  if (found != image.detections.end()) return found->second;
  throw InnerError(
      InnerFailure(settings.detect_model, TRITONSERVER_ERROR_INVALID_ARG,
                   "has no output '" + std::string(output) +
                       "', which the request needs: give detect_model a model with it, or leave "
                       "out of the request what comes from it"));
}

}  // namespace endcap::triton
