#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bls/choose.h"
#include "bls/held_request.h"
#include "bls/inner_tensors.h"
#include "bls/settings.h"
#include "triton_util/inner_call.h"
#include "triton_util/model.h"

namespace endcap::triton {

// What a classifier said of one detection.
struct RowClass {
  size_t row = 0;
  int32_t class_id = -1;
  float score = 0;
  std::string label;
};

// A region cut out of an image, as a tensor for a classifier.
struct Crop {
  size_t image = 0;  // index into CascadeJob::images
  size_t row = 0;    // of its detections
  size_t classifier = 0;
  TRITONSERVER_DataType data_type = TRITONSERVER_TYPE_INVALID;
  ItemTensor tensor;                           // on a GPU where its model left it there
  std::shared_ptr<const InnerCall> rois_call;  // keeps the memory of `tensor`
};

// One image on its way through the steps.
struct CascadeImage {
  size_t request = 0;  // index into CascadeJob::requests
  Bytes element;       // of `encoded`: the length in 4 bytes, then the file

  std::shared_ptr<const InnerCall> detect_call;       // keeps what `detections` points to
  std::map<std::string_view, ItemTensor> detections;  // by name, of kDetectionOutputs
  std::vector<bls::Chosen> chosen;                    // rows to classify
  std::vector<Crop> crops;
  std::vector<RowClass> classes;
};

// One request on its way through the steps.
struct CascadeRequest {
  explicit CascadeRequest(TRITONBACKEND_Request* handle) : pending(handle) {}

  PendingRequest pending;
  std::shared_ptr<HeldRequest> held = std::make_shared<HeldRequest>();
  size_t first_image = 0;
  size_t image_count = 0;
  std::string id;
  uint64_t timeout_us = 0;     // 0: none
  bool wants_classes = false;  // any of the outputs that classifiers fill
  std::optional<Failure> failure;
  bool cancelled = false;
  bool closed = false;  // answered

  // Whether more is to be computed for it.
  bool open() const noexcept { return !closed && !cancelled && !failure.has_value(); }
};

// The requests that the server handed over together.
struct CascadeJob {
  const CascadeSettings* settings = nullptr;
  InnerServer* server = nullptr;
  std::vector<CascadeRequest> requests;
  std::vector<CascadeImage> images;
};

}  // namespace endcap::triton
