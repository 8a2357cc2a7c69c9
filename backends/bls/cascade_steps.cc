#include "bls/cascade_steps.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "triton_util/response.h"
#include "triton_util/tensors.h"
#include "triton_util/trace.h"

namespace endcap::triton {
namespace {

constexpr size_t kBoxBytes = 4 * sizeof(float);

// The outputs of the detection model that SelectRows reads.
constexpr std::array<std::string_view, 4> kSelectionOutputs{
    "num_detections", "detection_boxes", "detection_scores", "detection_classes"};

size_t GetBatchLimit(const ComposingModel& model) {
  return static_cast<size_t>(std::max(1, model.max_batch_size));
}

// Sets the ids of the requests that the items belong to, so that log lines of the composing model
// have them, the longest of their timeouts if all have one, and the trace of the first that has
// one. The call keeps the requests.
void SetOrigin(ComposingCall& call, const CascadeJob& job, const bls::Range& items,
               std::span<const size_t> owners) {
  std::string ids;
  uint64_t timeout_us = 0;
  bool all_have_timeouts = true;
  bool traced = false;
  for (const bls::Range& part : bls::SplitByOwner(items, owners)) {
    const CascadeRequest& request = job.requests[owners[part.first]];
    call.Keep(request.shared);
    TRITONBACKEND_Request* handle = request.pending.request.handle();
    if (!traced && RequestTrace(handle).active()) {
      call.SetTraced(handle);
      traced = true;
    }
    if (!request.id.empty()) ids.append(ids.empty() ? "" : ",").append(request.id);
    timeout_us = std::max(timeout_us, request.timeout_us);
    all_have_timeouts = all_have_timeouts && request.timeout_us > 0;
  }
  if (!ids.empty()) call.SetId(ids);
  if (all_have_timeouts) call.SetTimeout(timeout_us);
}

class DetectPlan final : public CallPlan {
 public:
  explicit DetectPlan(CascadeJob& job) : job_(&job) {
    for (size_t i = 0; i < job.images.size(); ++i) {
      if (!job.requests[job.images[i].request].open()) continue;
      images_.push_back(i);
      owners_.push_back(job.images[i].request);
    }
  }

  size_t MaxItemsPerCall() const override { return GetBatchLimit(model()); }

  std::shared_ptr<ComposingCall> NewCall(const bls::Range& items) const override {
    const ComposingModel& detector = model();
    auto call = std::make_shared<ComposingCall>(*job_->models, detector);
    SetOrigin(*call, *job_, items, owners_);
    std::vector<MemoryBlock> blocks;
    for (size_t i = items.first; i < items.first + items.count; ++i) {
      const Bytes element = job_->images[images_[i]].element;
      blocks.push_back({element.data(), element.size(), {}});
    }
    std::vector<int64_t> shape{1};
    if (call->batched()) shape.insert(shape.begin(), static_cast<int64_t>(items.count));
    call->AddInput(std::string(kEncoded), TRITONSERVER_TYPE_BYTES, shape, blocks);
    for (const TensorSpec& output : kDetectionOutputs) {
      const std::string name(output.name);
      if (detector.HasOutput(name) && IsWanted(items, output.name)) call->WantOutput(name);
    }
    return call;
  }

  void ReadResponse(const bls::Range& items, const std::shared_ptr<ComposingCall>& call) override {
    const ItemCount count{items.count, call->batched()};
    for (const TensorSpec& output : kDetectionOutputs) {
      if (!call->WantsOutput(output.name)) continue;
      const std::vector<ItemTensor> tensors = SplitItems(*call, output.name, output.dtype, count);
      if (tensors.front().shape.size() != static_cast<size_t>(output.rank)) {
        call->RejectResponse("gave output '" + std::string(output.name) +
                             "' with another rank than " + std::to_string(output.rank) +
                             " an image");
      }
      for (size_t i = 0; i < items.count; ++i) {
        job_->images[images_[items.first + i]].detections[output.name] = tensors[i];
      }
    }
    for (size_t i = 0; i < items.count; ++i) {
      job_->images[images_[items.first + i]].detect_call = call;
    }
  }

 private:
  const ComposingModel& model() const {
    return job_->models->Describe(job_->settings->detect_model);
  }

  bool IsWanted(const bls::Range& items, std::string_view output) const {
    const bool selects = std::ranges::find(kSelectionOutputs, output) != kSelectionOutputs.end();
    for (size_t i = items.first; i < items.first + items.count; ++i) {
      const CascadeRequest& request = job_->requests[owners_[i]];
      if (request.wants_classes && selects) return true;
      if (request.pending.request.WantsOutput(output)) return true;
    }
    return false;
  }

  CascadeJob* job_;
  std::vector<size_t> images_;  // indices into CascadeJob::images
};

class RoisPlan final : public CallPlan {
 public:
  RoisPlan(CascadeJob& job, size_t rois_model) : job_(&job), rois_model_(rois_model) {
    for (size_t i = 0; i < job.images.size(); ++i) {
      const CascadeImage& image = job.images[i];
      if (!job.requests[image.request].open()) continue;
      Item item{i, {}};
      for (const bls::SelectedRow& selected : image.selected) {
        if (selected.route.rois_model == rois_model) item.rows.push_back(selected);
      }
      if (item.rows.empty()) continue;
      items_.push_back(std::move(item));
      owners_.push_back(image.request);
    }
  }

  size_t MaxItemsPerCall() const override { return 1; }

  std::shared_ptr<ComposingCall> NewCall(const bls::Range& items) const override {
    const Item& item = items_[items.first];
    const CascadeImage& image = job_->images[item.image];
    auto call = std::make_shared<ComposingCall>(*job_->models,
                                                job_->settings->routes.rois_models()[rois_model_]);
    SetOrigin(*call, *job_, items, owners_);
    call->Keep(image.detect_call);
    const MemoryBlock file{image.element.data(), image.element.size(), {}};
    const std::array<int64_t, 1> one{1};
    call->AddInput(std::string(kEncoded), TRITONSERVER_TYPE_BYTES, one, {&file, 1});
    const std::byte* boxes = FindDetections(image, "detection_boxes", *job_->settings).memory.data;
    std::vector<MemoryBlock> rois;
    rois.reserve(item.rows.size());
    for (const bls::SelectedRow& selected : item.rows) {
      rois.push_back({boxes + selected.row * kBoxBytes, kBoxBytes, {}});
    }
    const std::array<int64_t, 2> shape{static_cast<int64_t>(rois.size()), 4};
    call->AddInput("rois", TRITONSERVER_TYPE_FP32, shape, rois);
    call->WantOutput("images", /*may_stay_on_gpu=*/true);
    call->WantOutput("status");
    return call;
  }

  void ReadResponse(const bls::Range& items, const std::shared_ptr<ComposingCall>& call) override {
    const Item& item = items_[items.first];
    const ItemCount count{item.rows.size(), /*batched=*/true};
    std::vector<ItemTensor> images = SplitItems(*call, "images", count);
    const std::vector<ItemTensor> status = SplitItems(*call, "status", DType::kInt32, count);
    if (!status.front().shape.empty()) {
      call->RejectResponse(
          "gave output 'status' with another shape than one number for each region");
    }
    const TRITONSERVER_DataType data_type = call->Output("images").data_type;
    for (size_t i = 0; i < item.rows.size(); ++i) {
      if (*status[i].Data<int32_t>() != 0) continue;
      job_->images[item.image].crops.push_back({item.image, item.rows[i].row,
                                                item.rows[i].route.classifier, data_type,
                                                std::move(images[i]), call});
    }
  }

 private:
  // An image and its regions for this model.
  struct Item {
    size_t image = 0;
    std::vector<bls::SelectedRow> rows;
  };

  CascadeJob* job_;
  size_t rois_model_;
  std::vector<Item> items_;
};

class ClassifyPlan final : public CallPlan {
 public:
  // crops: of one classifier, type and shape; those of one request are adjacent.
  ClassifyPlan(CascadeJob& job, std::vector<Crop> crops) : job_(&job), crops_(std::move(crops)) {
    for (const Crop& crop : crops_) owners_.push_back(job.images[crop.image].request);
  }

  size_t MaxItemsPerCall() const override {
    return std::min(GetBatchLimit(model()), job_->settings->classify_batch_size);
  }

  std::shared_ptr<ComposingCall> NewCall(const bls::Range& items) const override {
    const ComposingModel& classifier = model();
    auto call = std::make_shared<ComposingCall>(*job_->models, classifier);
    SetOrigin(*call, *job_, items, owners_);
    std::vector<MemoryBlock> blocks;
    for (size_t i = items.first; i < items.first + items.count; ++i) {
      blocks.push_back(crops_[i].tensor.memory);
      call->Keep(crops_[i].rois_call);
    }
    std::vector<int64_t> shape = crops_[items.first].tensor.shape;
    if (call->batched()) shape.insert(shape.begin(), static_cast<int64_t>(items.count));
    call->AddInput("images", crops_[items.first].data_type, shape, blocks);
    call->WantOutput(std::string(kClassIds));
    call->WantOutput(std::string(kClassScores));
    const std::string labels(kClassLabels);
    if (classifier.HasOutput(labels) && WantsLabels(items)) call->WantOutput(labels);
    return call;
  }

  void ReadResponse(const bls::Range& items, const std::shared_ptr<ComposingCall>& call) override {
    const ItemCount count{items.count, call->batched()};
    const std::vector<ItemTensor> ids = SplitItems(*call, kClassIds, DType::kInt32, count);
    const std::vector<ItemTensor> scores = SplitItems(*call, kClassScores, DType::kFloat32, count);
    if (ids.front().memory.bytes == 0 || scores.front().memory.bytes == 0) {
      call->RejectResponse("gave no class for an image");
    }
    std::vector<std::string> labels(items.count);
    if (call->WantsOutput(kClassLabels)) labels = FirstStrings(*call, kClassLabels, count);
    for (size_t i = 0; i < items.count; ++i) {
      const Crop& crop = crops_[items.first + i];
      job_->images[crop.image].classes.push_back(
          {crop.row, *ids[i].Data<int32_t>(), *scores[i].Data<float>(), std::move(labels[i])});
    }
  }

 private:
  const ComposingModel& model() const {
    return job_->models->Describe(job_->settings->routes.classifiers()[crops_.front().classifier]);
  }

  bool WantsLabels(const bls::Range& items) const {
    const auto first = owners_.begin() + static_cast<std::ptrdiff_t>(items.first);
    return std::any_of(first, first + static_cast<std::ptrdiff_t>(items.count),
                       [&](size_t request) {
                         return job_->requests[request].pending.request.WantsOutput(kClassLabels);
                       });
  }

  CascadeJob* job_;
  std::vector<Crop> crops_;
};

// Adds outputs to the response to a request.
class OutputWriter {
 public:
  OutputWriter(CascadeRequest& request, const ExecutionContext& execution_context, bool batched)
      : request_(request), execution_context_(execution_context), batched_(batched) {}

  bool Wants(std::string_view name) const { return request_.pending.request.WantsOutput(name); }

  // shape: of one item. parts: the bytes of all items.
  void Write(std::string_view name, TRITONSERVER_DataType type, std::vector<int64_t> shape,
             std::span<const Bytes> parts) {
    if (batched_) shape.insert(shape.begin(), static_cast<int64_t>(request_.image_count));
    size_t bytes = 0;
    for (const Bytes part : parts) bytes += part.size();
    const OutputMemory memory = request_.pending.sink.AddOutput(name, type, shape, bytes, {});
    auto* to = static_cast<std::byte*>(memory.data);
    for (const Bytes part : parts) {
      WriteOutput(part, to, memory.place, execution_context_);
      to += part.size();
    }
  }

 private:
  CascadeRequest& request_;
  const ExecutionContext& execution_context_;
  bool batched_;
};

// Returns the shape of an output of the detections, which the images of a request must share.
const std::vector<int64_t>& FindCommonShape(std::span<const CascadeImage> images,
                                            std::string_view output,
                                            const CascadeSettings& settings) {
  const std::vector<int64_t>& shape = FindDetections(images.front(), output, settings).shape;
  for (const CascadeImage& image : images.subspan(1)) {
    if (FindDetections(image, output, settings).shape == shape) continue;
    throw ComposingModelError(
        MakeComposingFailure(settings.detect_model, TRITONSERVER_ERROR_INTERNAL,
                             "gave output '" + std::string(output) +
                                 "' of different shapes for the images of one request"));
  }
  return shape;
}

void WriteDetections(OutputWriter& writer, std::span<const CascadeImage> images,
                     const CascadeSettings& settings) {
  for (const TensorSpec& spec : kDetectionOutputs) {
    if (!writer.Wants(spec.name)) continue;
    const std::vector<int64_t>& shape = FindCommonShape(images, spec.name, settings);
    std::vector<Bytes> parts;
    parts.reserve(images.size());
    for (const CascadeImage& image : images) {
      const ItemTensor& tensor = FindDetections(image, spec.name, settings);
      parts.emplace_back(tensor.memory.data, tensor.memory.bytes);
    }
    writer.Write(spec.name, ToTriton(spec.dtype), shape, parts);
  }
}

// The classes of all rows of a request's images, in the order of the images.
struct ClassColumns {
  std::vector<int32_t> ids;
  std::vector<float> scores;
  std::vector<std::byte> labels;
};

ClassColumns MakeClassColumns(std::span<const CascadeImage> images, size_t row_count) {
  ClassColumns columns;
  columns.ids.assign(images.size() * row_count, -1);
  columns.scores.assign(images.size() * row_count, 0.0F);
  std::vector<std::string_view> labels(images.size() * row_count);
  for (size_t i = 0; i < images.size(); ++i) {
    for (const RowClass& row : images[i].classes) {
      const size_t at = i * row_count + row.row;
      columns.ids[at] = row.class_id;
      columns.scores[at] = row.score;
      labels[at] = row.label;
    }
  }
  for (const std::string_view label : labels) AppendString(columns.labels, label);
  return columns;
}

void WriteClasses(OutputWriter& writer, std::span<const CascadeImage> images,
                  const CascadeSettings& settings) {
  const std::vector<int64_t>& rows = FindCommonShape(images, "detection_classes", settings);
  const ClassColumns columns = MakeClassColumns(images, static_cast<size_t>(rows.front()));
  const auto write = [&](std::string_view name, TRITONSERVER_DataType type, auto values) {
    const Bytes bytes = std::as_bytes(values);
    if (writer.Wants(name)) writer.Write(name, type, rows, {&bytes, 1});
  };
  write(kClassIds, TRITONSERVER_TYPE_INT32, std::span(columns.ids));
  write(kClassScores, TRITONSERVER_TYPE_FP32, std::span(columns.scores));
  write(kClassLabels, TRITONSERVER_TYPE_BYTES, std::span(columns.labels));
}

}  // namespace

std::unique_ptr<CallPlan> NewDetectPlan(CascadeJob& job) {
  return std::make_unique<DetectPlan>(job);
}

std::vector<bls::SelectedRow> SelectRows(const CascadeImage& image,
                                         const CascadeSettings& settings) {
  const ItemTensor& scores = FindDetections(image, "detection_scores", settings);
  const ItemTensor& classes = FindDetections(image, "detection_classes", settings);
  const ItemTensor& boxes = FindDetections(image, "detection_boxes", settings);
  const ItemTensor& number = FindDetections(image, "num_detections", settings);
  const int64_t rows = scores.shape[0];
  if (classes.shape[0] != rows || boxes.shape[0] != rows || boxes.shape[1] != 4 ||
      number.shape[0] != 1) {
    throw ComposingModelError(
        MakeComposingFailure(settings.detect_model, TRITONSERVER_ERROR_INTERNAL,
                             "gave num_detections, detection_boxes, detection_scores and "
                             "detection_classes of different numbers of rows"));
  }
  const int64_t found = *number.Data<int32_t>();
  const auto count = static_cast<size_t>(std::clamp(found, int64_t{0}, rows));
  return bls::SelectRows({scores.Data<float>(), count}, {classes.Data<int32_t>(), count},
                         settings.classify_threshold, settings.routes);
}

std::vector<std::unique_ptr<CallPlan>> NewRoisPlans(CascadeJob& job) {
  const size_t model_count = job.settings->routes.rois_models().size();
  std::vector<std::unique_ptr<CallPlan>> plans;
  plans.reserve(model_count);
  for (size_t i = 0; i < model_count; ++i) {
    plans.push_back(std::make_unique<RoisPlan>(job, i));
  }
  return plans;
}

std::vector<std::unique_ptr<CallPlan>> NewClassifyPlans(CascadeJob& job) {
  using Form = std::tuple<size_t, TRITONSERVER_DataType, std::vector<int64_t>>;
  std::map<Form, std::vector<Crop>> groups;
  for (CascadeImage& image : job.images) {
    if (!job.requests[image.request].open()) continue;
    // Calls may have ended in any order.
    std::ranges::sort(image.crops, {}, &Crop::row);
    for (Crop& crop : image.crops) {
      groups[{crop.classifier, crop.data_type, crop.tensor.shape}].push_back(std::move(crop));
    }
    image.crops.clear();
  }
  std::vector<std::unique_ptr<CallPlan>> plans;
  plans.reserve(groups.size());
  for (auto& [form, crops] : groups) {
    plans.push_back(std::make_unique<ClassifyPlan>(job, std::move(crops)));
  }
  return plans;
}

void WriteResponse(CascadeJob& job, CascadeRequest& request,
                   const ExecutionContext& execution_context, bool batched) {
  OutputWriter writer(request, execution_context, batched);
  const std::span<const CascadeImage> images = job.GetImages(request);
  WriteDetections(writer, images, *job.settings);
  if (request.wants_classes) WriteClasses(writer, images, *job.settings);
}

}  // namespace endcap::triton
