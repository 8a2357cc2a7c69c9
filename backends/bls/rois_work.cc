#include "bls/rois_work.h"

#include <array>
#include <utility>

#include "bls/call_identity.h"
#include "bls/contracts.h"
#include "bls/detections_of.h"

namespace endcap::triton {
namespace {

constexpr size_t kBoxBytes = 4 * sizeof(float);

}  // namespace

RoisWork::RoisWork(CascadeJob& job, size_t rois_model) : job_(&job), rois_model_(rois_model) {
  for (size_t i = 0; i < job.images.size(); ++i) {
    const CascadeImage& image = job.images[i];
    if (!job.requests[image.request].open()) continue;
    Item item{i, {}};
    for (const bls::Chosen& chosen : image.chosen) {
      if (chosen.route.rois_model == rois_model) item.rows.push_back(chosen);
    }
    if (item.rows.empty()) continue;
    items_.push_back(std::move(item));
    owners_.push_back(image.request);
  }
}

const std::string& RoisWork::model() const {
  return job_->settings->routes.rois_models()[rois_model_];
}

std::shared_ptr<InnerCall> RoisWork::NewCall(const bls::Range& items) const {
  const Item& item = items_[items.first];
  const CascadeImage& image = job_->images[item.image];
  auto call = std::make_shared<InnerCall>(*job_->server, model());
  Identify(*call, *job_, items, owners_);
  call->Keep(image.detect_call);
  const Piece file{image.element.data(), image.element.size(), {}};
  const std::array<int64_t, 1> one{1};
  call->AddInput(std::string(kEncoded), TRITONSERVER_TYPE_BYTES, one, {&file, 1});
  const std::byte* boxes = FindDetections(image, "detection_boxes", *job_->settings).memory.data;
  std::vector<Piece> rois;
  rois.reserve(item.rows.size());
  for (const bls::Chosen& chosen : item.rows) {
    rois.push_back({boxes + chosen.row * kBoxBytes, kBoxBytes, {}});
  }
  const std::array<int64_t, 2> shape{static_cast<int64_t>(rois.size()), 4};
  call->AddInput("rois", TRITONSERVER_TYPE_FP32, shape, rois);
  call->WantOutput("images", /*may_stay_on_gpu=*/true);
  call->WantOutput("status");
  return call;
}

void RoisWork::Take(const bls::Range& items, const std::shared_ptr<InnerCall>& call) {
  const Item& item = items_[items.first];
  const ItemCount count{item.rows.size(), /*batched=*/true};
  std::vector<ItemTensor> images = SplitItems(*call, "images", count);
  const std::vector<ItemTensor> status = SplitItems(*call, "status", DType::kInt32, count);
  if (!status.front().shape.empty()) {
    call->Refuse("gave output 'status' with another shape than one number for each region");
  }
  const TRITONSERVER_DataType data_type = call->Output("images").data_type;
  for (size_t i = 0; i < item.rows.size(); ++i) {
    if (*status[i].Data<int32_t>() != 0) continue;
    job_->images[item.image].crops.push_back({item.image, item.rows[i].row,
                                              item.rows[i].route.classifier, data_type,
                                              std::move(images[i]), call});
  }
}

}  // namespace endcap::triton
