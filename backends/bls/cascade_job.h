#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bls/item_tensors.h"
#include "endcap/cascade.h"
#include "triton_util/composing_call.h"
#include "triton_util/model.h"
#include "triton_util/request_threads.h"

namespace endcap::triton {

// A request with the memory of its images, shared by its cascade and the calls that read it. The
// last owner releases the request.
class SharedRequest {
 public:
  SharedRequest() = default;
  ~SharedRequest();
  SharedRequest(const SharedRequest&) = delete;
  SharedRequest& operator=(const SharedRequest&) = delete;

  // Takes ownership of the request. It counts as one in `in_flight` until it is released.
  void Own(TRITONBACKEND_Request* request, InFlight& in_flight);

  std::optional<InputTensor> encoded;

 private:
  TRITONBACKEND_Request* request_ = nullptr;
  InFlight* in_flight_ = nullptr;
};

// A classifier's result for one detection.
struct RowClass {
  size_t row = 0;
  int32_t class_id = -1;
  float score = 0;
  std::string label;
};

// A region of an image as a tensor for a classifier.
struct Crop {
  size_t image = 0;  // index into CascadeJob::images
  size_t row = 0;    // of its detections
  size_t classifier = 0;
  TRITONSERVER_DataType data_type = TRITONSERVER_TYPE_INVALID;
  ItemTensor tensor;                               // may be on a GPU
  std::shared_ptr<const ComposingCall> rois_call;  // owns the memory of `tensor`
};

// One image and its intermediate results.
struct CascadeImage {
  size_t request = 0;  // index into CascadeJob::requests
  Bytes element;       // of `encoded`: the length in 4 bytes, then the file

  std::shared_ptr<const ComposingCall> detect_call;   // owns the memory of `detections`
  std::map<std::string_view, ItemTensor> detections;  // by name, of kDetectionOutputs
  std::vector<bls::SelectedRow> selected;             // rows to classify
  std::vector<Crop> crops;
  std::vector<RowClass> classes;
};

// One request and its images.
struct CascadeRequest {
  explicit CascadeRequest(TRITONBACKEND_Request* handle) : pending(handle) {}

  PendingRequest pending;
  std::shared_ptr<SharedRequest> shared = std::make_shared<SharedRequest>();
  size_t first_image = 0;
  size_t image_count = 0;
  std::string id;
  uint64_t timeout_us = 0;     // 0: none
  bool wants_classes = false;  // any of the outputs that classifiers fill
  std::optional<Failure> failure;
  bool cancelled = false;
  bool closed = false;  // the response has been sent

  // Whether it needs further computation.
  bool open() const noexcept { return !closed && !cancelled && !failure.has_value(); }
};

// The requests of one execution.
struct CascadeJob {
  const CascadeSettings* settings = nullptr;
  ComposingModels* models = nullptr;
  std::vector<CascadeRequest> requests;
  std::vector<CascadeImage> images;

  std::span<CascadeImage> GetImages(const CascadeRequest& request) noexcept {
    return std::span(images).subspan(request.first_image, request.image_count);
  }
};

// Reads request `index` of the job and adds its images. Throws kInvalidArgument if the input does
// not hold one file for each image; ApiError.
void ReadRequest(CascadeJob& job, size_t index, const InputReading& reading);

// Returns an output of the detection model for one image. Throws ComposingModelError if the model
// has no such output.
const ItemTensor& FindDetections(const CascadeImage& image, std::string_view output,
                                 const CascadeSettings& settings);

}  // namespace endcap::triton
