#include "bls/cascade_model.h"

#include <chrono>
#include <set>
#include <string>
#include <utility>

#include "bls/cascade_run.h"
#include "triton_util/execution.h"
#include "triton_util/log.h"
#include "triton_util/statistics.h"

namespace endcap::triton {
namespace {

// How soon a cancelled request cancels its calls.
constexpr std::chrono::milliseconds kPollPeriod{15};
constexpr size_t kNoLimit = SIZE_MAX;

}  // namespace

CascadeModel::CascadeModel(const ModelConfig& config, const MetricFamilies& families,
                           CascadeSettings settings)
    : Model(config, families),
      settings_(std::move(settings)),
      server_(config.handle()),
      crops_(families.NewCounter("crops_total", metric_labels())),
      inner_calls_(families.NewCounter("inner_calls_total", metric_labels())),
      worker_([this] { PollCancelled(); }, kPollPeriod) {
  LogModels();
}

CascadeModel::~CascadeModel() = default;

void CascadeModel::LogModels() const {
  std::set<std::string> names{settings_.detect_model};
  names.insert(settings_.routes.rois_models().begin(), settings_.routes.rois_models().end());
  names.insert(settings_.routes.classifiers().begin(), settings_.routes.classifiers().end());
  for (const std::string& name : names) {
    const std::string state = server_.IsReady(name)
                                  ? "'"
                                  : "', which is not ready yet: requests that need it fail until "
                                    "it is";
    Log(TRITONSERVER_LOG_INFO, label() + " calls model '" + name + state);
  }
}

std::unique_ptr<Instance> CascadeModel::NewInstance(const ExecutionContext& execution_context) {
  return std::make_unique<CascadeInstance>(execution_context);
}

void CascadeModel::Serve(TRITONBACKEND_ModelInstance* handle, Instance& instance,
                         std::span<TRITONBACKEND_Request*> requests) noexcept {
  auto& cascade_instance = static_cast<CascadeInstance&>(instance);
  cascade_instance.runs.Enter(1, kNoLimit);
  try {
    auto run = std::make_shared<CascadeRun>(*this, handle, cascade_instance, requests);
    Worker::Ready begin;
    begin.push_back([run] { run->Begin(); });
    images_.Enter(run->image_count(), settings_.max_in_flight);
    worker_.Post(std::move(begin));
  } catch (...) {
    RefuseAll(requests, MakeFailureFromCurrentException());
    cascade_instance.runs.Leave(1);
  }
}

void CascadeModel::PollCancelled() {
  for (CascadeRun* run : runs_) run->PollCancelled();
}

}  // namespace endcap::triton
