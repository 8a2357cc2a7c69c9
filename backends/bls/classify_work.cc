#include "bls/classify_work.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "bls/call_identity.h"
#include "bls/contracts.h"

namespace endcap::triton {

ClassifyWork::ClassifyWork(CascadeJob& job, std::vector<Crop> crops)
    : job_(&job), crops_(std::move(crops)) {
  for (const Crop& crop : crops_) owners_.push_back(job.images[crop.image].request);
}

const InnerModel& ClassifyWork::Model() const {
  return job_->server->Describe(job_->settings->routes.classifiers()[crops_.front().classifier]);
}

size_t ClassifyWork::Limit() const {
  const auto of_model = static_cast<size_t>(std::max(1, Model().max_batch_size));
  return std::min(of_model, job_->settings->classify_batch_size);
}

bool ClassifyWork::WantsLabels(const bls::Range& items) const {
  const auto first = owners_.begin() + static_cast<std::ptrdiff_t>(items.first);
  return std::any_of(first, first + static_cast<std::ptrdiff_t>(items.count), [&](size_t request) {
    return job_->requests[request].pending.request.WantsOutput(kClassLabels);
  });
}

std::shared_ptr<InnerCall> ClassifyWork::NewCall(const bls::Range& items) const {
  const InnerModel& model = Model();
  auto call = std::make_shared<InnerCall>(*job_->server, model);
  Identify(*call, *job_, items, owners_);
  std::vector<Piece> pieces;
  for (size_t i = items.first; i < items.first + items.count; ++i) {
    pieces.push_back(crops_[i].tensor.memory);
    call->Keep(crops_[i].rois_call);
  }
  std::vector<int64_t> shape = crops_[items.first].tensor.shape;
  if (call->batched()) shape.insert(shape.begin(), static_cast<int64_t>(items.count));
  call->AddInput("images", crops_[items.first].data_type, shape, pieces);
  call->WantOutput(std::string(kClassIds));
  call->WantOutput(std::string(kClassScores));
  const std::string labels(kClassLabels);
  if (model.HasOutput(labels) && WantsLabels(items)) call->WantOutput(labels);
  return call;
}

void ClassifyWork::Take(const bls::Range& items, const std::shared_ptr<InnerCall>& call) {
  const ItemCount count{items.count, call->batched()};
  const std::vector<ItemTensor> ids = SplitItems(*call, kClassIds, DType::kInt32, count);
  const std::vector<ItemTensor> scores = SplitItems(*call, kClassScores, DType::kFloat32, count);
  if (ids.front().memory.bytes == 0 || scores.front().memory.bytes == 0) {
    call->Refuse("gave no class for an image");
  }
  std::vector<std::string> labels(items.count);
  if (call->WantsOutput(kClassLabels)) labels = FirstStrings(*call, kClassLabels, count);
  for (size_t i = 0; i < items.count; ++i) {
    const Crop& crop = crops_[items.first + i];
    job_->images[crop.image].classes.push_back(
        {crop.row, *ids[i].Data<int32_t>(), *scores[i].Data<float>(), std::move(labels[i])});
  }
}

std::vector<std::unique_ptr<Work>> ClassifyWorks(CascadeJob& job) {
  using Form = std::tuple<size_t, TRITONSERVER_DataType, std::vector<int64_t>>;
  std::map<Form, std::vector<Crop>> groups;
  for (CascadeImage& image : job.images) {
    if (!job.requests[image.request].open()) continue;
    // Calls may have ended in any order.
    std::sort(image.crops.begin(), image.crops.end(),
              [](const Crop& a, const Crop& b) { return a.row < b.row; });
    for (Crop& crop : image.crops) {
      groups[{crop.classifier, crop.data_type, crop.tensor.shape}].push_back(std::move(crop));
    }
    image.crops.clear();
  }
  std::vector<std::unique_ptr<Work>> works;
  works.reserve(groups.size());
  for (auto& [form, crops] : groups) {
    works.push_back(std::make_unique<ClassifyWork>(job, std::move(crops)));
  }
  return works;
}

}  // namespace endcap::triton
