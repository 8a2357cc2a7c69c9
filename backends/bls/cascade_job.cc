#include "bls/cascade_job.h"

#include <utility>

#include "endcap/error.h"

namespace endcap::triton {
namespace {

// Returns the file with its length, which is in front of it in the same buffer.
Bytes ExtendToElement(Bytes file) {
  return {file.data() - kStringLengthBytes, file.size() + kStringLengthBytes};
}

std::vector<Bytes> ReadFiles(const InputTensor& encoded) {
  if (encoded.data_type() != TRITONSERVER_TYPE_BYTES) {
    throw Error(ErrorCode::kInvalidArgument,
                "input 'encoded' is no BYTES tensor: give an element with a file for each image");
  }
  std::vector<Bytes> files = encoded.Strings();
  if (std::cmp_not_equal(files.size(), encoded.item_count())) {
    throw Error(ErrorCode::kInvalidArgument,
                "input 'encoded' has " + std::to_string(files.size()) + " elements for " +
                    std::to_string(encoded.item_count()) + " images; it takes one for each");
  }
  return files;
}

}  // namespace

void SharedRequest::Own(TRITONBACKEND_Request* request, InFlight& in_flight) {
  in_flight.Enter(1, SIZE_MAX);
  request_ = request;
  in_flight_ = &in_flight;
}

SharedRequest::~SharedRequest() {
  if (request_ == nullptr) return;
  encoded.reset();
  ReleaseRequest(request_);
  // Afterwards the instance, and then the model, may be destroyed; the worker ends with the model.
  in_flight_->Leave(1);
}

void ReadRequest(CascadeJob& job, size_t index, const InputReading& reading) {
  CascadeRequest& request = job.requests[index];
  const Request& source = request.pending.request;
  request.id = ClipText(source.Id());  // the server puts it into messages
  request.timeout_us = source.TimeoutUs();
  request.wants_classes = source.WantsOutput(kClassIds) || source.WantsOutput(kClassScores) ||
                          source.WantsOutput(kClassLabels);
  std::optional<InputTensor>& encoded = request.shared->encoded;
  encoded.emplace(source.GetInput(kEncoded, reading));
  const std::vector<Bytes> files = ReadFiles(*encoded);
  job.images.reserve(job.images.size() + files.size());
  request.first_image = job.images.size();
  request.image_count = files.size();
  for (const Bytes file : files) {
    job.images.emplace_back();
    job.images.back().request = index;
    job.images.back().element = ExtendToElement(file);
  }
}

const ItemTensor& FindDetections(const CascadeImage& image, std::string_view output,
                                 const CascadeSettings& settings) {
  const auto found = image.detections.find(output);
  if (found != image.detections.end()) return found->second;
  throw ComposingModelError(MakeComposingFailure(
      settings.detect_model, TRITONSERVER_ERROR_INVALID_ARG,
      "has no output '" + std::string(output) +
          "', which the request needs: give detect_model a model with it, or leave "
          "out of the request what comes from it"));
}

}  // namespace endcap::triton
