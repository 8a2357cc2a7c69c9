#include "bls/detect_work.h"

#include <algorithm>
#include <string>

#include "bls/call_identity.h"
#include "bls/contracts.h"

namespace endcap::triton {
namespace {

// What choosing the rows to classify needs.
constexpr std::array<std::string_view, 4> kNeededToChoose{"num_detections", "detection_boxes",
                                                          "detection_scores", "detection_classes"};

bool IsNeededToChoose(std::string_view output) {
  return std::find(kNeededToChoose.begin(), kNeededToChoose.end(), output) != kNeededToChoose.end();
}

}  // namespace

DetectWork::DetectWork(CascadeJob& job) : job_(&job) {
  for (size_t i = 0; i < job.images.size(); ++i) {
    if (!job.requests[job.images[i].request].open()) continue;
    images_.push_back(i);
    owners_.push_back(job.images[i].request);
  }
}

const InnerModel& DetectWork::Model() const {
  return job_->server->Describe(job_->settings->detect_model);
}

size_t DetectWork::Limit() const {
  return static_cast<size_t>(std::max(1, Model().max_batch_size));
}

bool DetectWork::Wants(const bls::Range& items, const TensorSpec& output) const {
  for (size_t i = items.first; i < items.first + items.count; ++i) {
    const CascadeRequest& request = job_->requests[owners_[i]];
    if (request.wants_classes && IsNeededToChoose(output.name)) return true;
    if (request.pending.request.WantsOutput(output.name)) return true;
  }
  return false;
}

std::shared_ptr<InnerCall> DetectWork::NewCall(const bls::Range& items) const {
  const InnerModel& model = Model();
  auto call = std::make_shared<InnerCall>(*job_->server, model);
  Identify(*call, *job_, items, owners_);
  std::vector<Piece> pieces;
  for (size_t i = items.first; i < items.first + items.count; ++i) {
    const Bytes element = job_->images[images_[i]].element;
    pieces.push_back({element.data(), element.size(), {}});
  }
  std::vector<int64_t> shape{1};
  if (call->batched()) shape.insert(shape.begin(), static_cast<int64_t>(items.count));
  call->AddInput(std::string(kEncoded), TRITONSERVER_TYPE_BYTES, shape, pieces);
  for (const TensorSpec& output : kDetectionOutputs) {
    const std::string name(output.name);
    if (model.HasOutput(name) && Wants(items, output)) call->WantOutput(name);
  }
  return call;
}

void DetectWork::Take(const bls::Range& items, const std::shared_ptr<InnerCall>& call) {
  const ItemCount count{items.count, call->batched()};
  for (const TensorSpec& output : kDetectionOutputs) {
    if (!call->WantsOutput(output.name)) continue;
    const std::vector<ItemTensor> tensors = SplitItems(*call, output.name, output.dtype, count);
    if (tensors.front().shape.size() != static_cast<size_t>(output.rank)) {
      call->Refuse("gave output '" + std::string(output.name) + "' with another rank than " +
                   std::to_string(output.rank) + " an image");
    }
    for (size_t i = 0; i < items.count; ++i) {
      job_->images[images_[items.first + i]].detections[output.name] = tensors[i];
    }
  }
  for (size_t i = 0; i < items.count; ++i) {
    job_->images[images_[items.first + i]].detect_call = call;
  }
}

}  // namespace endcap::triton
