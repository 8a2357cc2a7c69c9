#include "bls/choose_rows.h"

#include <algorithm>
#include <cstdint>

#include "bls/detections_of.h"

namespace endcap::triton {

std::vector<bls::Chosen> ChooseRows(const CascadeImage& image, const CascadeSettings& settings) {
  const ItemTensor& scores = FindDetections(image, "detection_scores", settings);
  const ItemTensor& classes = FindDetections(image, "detection_classes", settings);
  const ItemTensor& boxes = FindDetections(image, "detection_boxes", settings);
  const ItemTensor& number = FindDetections(image, "num_detections", settings);
  const int64_t rows = scores.shape[0];
  if (classes.shape[0] != rows || boxes.shape[0] != rows || boxes.shape[1] != 4 ||
      number.shape[0] != 1) {
    throw InnerError(InnerFailure(settings.detect_model, TRITONSERVER_ERROR_INTERNAL,
                                  "gave num_detections, detection_boxes, detection_scores and "
                                  "detection_classes of different numbers of rows"));
  }
  const int64_t found = *number.Data<int32_t>();
  const auto count = static_cast<size_t>(std::clamp(found, int64_t{0}, rows));
  return bls::Choose({scores.Data<float>(), count}, {classes.Data<int32_t>(), count},
                     settings.classify_threshold, settings.routes);
}

}  // namespace endcap::triton
