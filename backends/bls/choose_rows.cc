#include "bls/choose_rows.h"

#include <algorithm>
#include <cstdint>

namespace endcap::triton {

std::vector<bls::Chosen> ChooseRows(const CascadeImage& image, const CascadeSettings& settings) {
  const ItemTensor& scores = image.detections.at("detection_scores");
  const ItemTensor& classes = image.detections.at("detection_classes");
  const ItemTensor& boxes = image.detections.at("detection_boxes");
  const ItemTensor& number = image.detections.at("num_detections");
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
