#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "endcap/contract.h"
#include "endcap/preprocess.h"
#include "triton_util/core_model.h"
#include "triton_util/instance.h"

namespace endcap::triton {

// The image of one item, and its regions where the model has an input `rois` or makes tiles.
struct SourceImage {
  ImageView image;
  std::optional<std::span<const Roi>> rois;
  std::vector<Roi> tiles;  // own the memory of `rois`
};

// Warnings of one kind, of which one in ten seconds is written, and with it how many were not.
class RareWarning {
 public:
  // verb: "refused", for the line "...; refused 3 others before it".
  explicit RareWarning(std::string_view verb) noexcept : verb_(verb) {}
  void Write(std::string line);

 private:
  const std::string_view verb_;
  std::mutex mutex_;
  uint64_t written_ns_ = 0;  // when the last one was; 0: never
  int64_t unwritten_ = 0;    // since
};

// The metrics of the admission by max_queue_cost, for one model.
class AdmissionCounters {
 public:
  // The families that they need.
  static std::vector<MetricInfo> Families();
  // Counts nothing.
  AdmissionCounters() = default;
  AdmissionCounters(const MetricFamilies& families, const MetricLabels& model);

  void CountAccepted() noexcept { accepted_.Add(1); }
  void CountRefusal(RefusalReason reason) noexcept { refused_[static_cast<size_t>(reason)].Add(1); }
  void SetQueued(double ms) noexcept { queued_seconds_.Set(ms * 1e-3); }
  void CountServed(double predicted_ms, double measured_ms) noexcept;

 private:
  Counter accepted_;
  std::array<Counter, kRefusalReasonCount> refused_;
  Gauge queued_seconds_;
  Counter predicted_seconds_;
  Counter measured_seconds_;
  Counter error_seconds_;
};

// `encoded` -> images, geometry, status, one row for each image, or each of its tiles; or
// `encoded`, `rois` -> one row for each region. With tiles or regions a request is one image, and
// the server does not batch the model: requests have outputs of different lengths.
class PreprocessModel final
    : public CoreModel<SourceImage, std::vector<PreprocessOutput>, PreprocessItem> {
 public:
  PreprocessModel(const ModelConfig& config, const MetricFamilies& families,
                  const PreprocessSettings& settings);

  // Throws kUnsupported on a GPU where max_queue_cost is given.
  std::unique_ptr<Instance> NewInstance(const ExecutionContext& execution_context) override;

 protected:
  void Read(JobType& job, const ExecutionContext& execution_context) override;
  void Trace(const PreprocessItem& item, RequestTrace& trace) const noexcept override;

 private:
  void AllocateImages(JobType& job, const ExecutionContext& execution_context);
  void AllocateRegions(JobType& job, const ExecutionContext& execution_context);

  Engine MakeEngine(std::shared_ptr<Preprocessor> preprocessor, void* stream);
  Admission MakeAdmission();
  void Count(std::span<const PreprocessItem> items);
  Demand MeasureDemand(const RequestTask& task) const noexcept;
  void Refuse(const RequestTask& task, const Refusal& refusal) noexcept;

  PreprocessSettings settings_;
  std::vector<TensorSpec> specs_;  // of the outputs, for one image or region
  SharedByDevice<Preprocessor> preprocessors_;
  SharedByDevice<RequestThreads> threads_;
  Counter decode_seconds_;
  Counter damaged_;
  AdmissionCounters admission_;
  RareWarning refusal_warning_{"refused"};
  RareWarning damage_warning_{"decoded"};
};

}  // namespace endcap::triton
