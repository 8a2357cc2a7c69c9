#include "bls/read_request.h"

#include <string>
#include <utility>

#include "bls/contracts.h"
#include "endcap/error.h"

namespace endcap::triton {
namespace {

constexpr size_t kLengthPrefixBytes = 4;  // before each element of a BYTES tensor

// A file together with the length before it, which lies in the same buffer.
Bytes ReadElement(Bytes file) {
  return {file.data() - kLengthPrefixBytes, file.size() + kLengthPrefixBytes};
}

uint64_t ReadTimeout(const Request& request) {
  uint64_t timeout_us = 0;
  Check(TRITONBACKEND_InferenceRequestTimeoutMicroseconds(request.handle(), &timeout_us));
  return timeout_us;
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

void ReadRequest(CascadeJob& job, size_t index, const InputReading& reading) {
  CascadeRequest& request = job.requests[index];
  const Request& source = request.pending.request;
  request.id = source.Id();
  request.timeout_us = ReadTimeout(source);
  request.wants_classes = source.WantsOutput(kClassIds) || source.WantsOutput(kClassScores) ||
                          source.WantsOutput(kClassLabels);
  std::optional<InputTensor>& encoded = request.held->encoded;
  encoded.emplace(source.GetInput(kEncoded, reading));
  const std::vector<Bytes> files = ReadFiles(*encoded);
  job.images.reserve(job.images.size() + files.size());
  request.first_image = job.images.size();
  request.image_count = files.size();
  for (const Bytes file : files) {
    job.images.emplace_back();
    job.images.back().request = index;
    job.images.back().element = ReadElement(file);
  }
}

}  // namespace endcap::triton
