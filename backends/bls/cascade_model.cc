#include "bls/cascade_model.h"

#include <chrono>
#include <set>
#include <string>
#include <utility>

#include "bls/cascade_run.h"

namespace endcap::triton {
namespace {

// The period of checks for cancelled requests.
constexpr std::chrono::milliseconds kPollPeriod{15};
constexpr size_t kNoLimit = SIZE_MAX;

class BlsBackend final : public Backend {
 public:
  BlsBackend()
      : Backend("endcap_bls", {{"crops_total", "Detections that were cropped and classified"},
                               {"inner_calls_total", "Requests to composing models"}}) {}

  std::unique_ptr<Model> Load(ModelConfig& config) const override {
    CascadeSettings settings = ReadCascadeSettings(config.parameters());
    config.Complete(settings.contract);
    return std::make_unique<CascadeModel>(config, families(), std::move(settings));
  }
};

}  // namespace

std::unique_ptr<Backend> CreateBackend() { return std::make_unique<BlsBackend>(); }

CascadeModel::CascadeModel(const ModelConfig& config, const MetricFamilies& families,
                           CascadeSettings settings)
    : Model(config, families),
      settings_(std::move(settings)),
      models_(config.handle()),
      crops_(families.NewCounter("crops_total", metric_labels())),
      composing_calls_(families.NewCounter("inner_calls_total", metric_labels())),
      worker_([this] { PollCancelled(); }, kPollPeriod) {
  LogModels();
}

CascadeModel::~CascadeModel() = default;

void CascadeModel::LogModels() const {
  std::set<std::string> names{settings_.detect_model};
  names.insert(settings_.routes.rois_models().begin(), settings_.routes.rois_models().end());
  names.insert(settings_.routes.classifiers().begin(), settings_.routes.classifiers().end());
  for (const std::string& name : names) {
    const std::string state = models_.IsReady(name)
                                  ? "'"
                                  : "', which is not ready yet: requests that need it fail until "
                                    "it is";
    Log(TRITONSERVER_LOG_INFO, label() + " calls model '" + name + state);
  }
}

std::unique_ptr<Instance> CascadeModel::NewInstance(const ExecutionContext& execution_context) {
  return std::make_unique<CascadeInstance>(execution_context);
}

void CascadeModel::Execute(TRITONBACKEND_ModelInstance* handle, Instance& instance,
                           std::span<TRITONBACKEND_Request*> requests) noexcept {
  auto& cascade_instance = static_cast<CascadeInstance&>(instance);
  cascade_instance.in_flight.Enter(1, kNoLimit);
  try {
    auto run = std::make_shared<CascadeRun>(*this, handle, cascade_instance, requests);
    Worker::PreparedTask begin;
    begin.push_back([run] { run->Begin(); });
    images_.Enter(run->image_count(), settings_.max_in_flight);
    worker_.Post(std::move(begin));
  } catch (...) {
    FailAndRelease(requests, MakeFailureFromCurrentException());
    cascade_instance.in_flight.Leave(1);
  }
}

void CascadeModel::PollCancelled() {
  for (CascadeRun* run : runs_) run->PollCancelled();
}

}  // namespace endcap::triton
