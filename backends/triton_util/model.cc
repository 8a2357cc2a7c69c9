#include "triton_util/model.h"

#include "triton_util/log.h"

namespace endcap::triton {

Model::Model(const ModelConfig& config, const MetricFamilies& families)
    : label_("model '" + config.name() + "' version " + std::to_string(config.version())),
      batched_(config.max_batch_size() > 0),
      metric_labels_{{"model", config.name()}, {"version", std::to_string(config.version())}},
      counters_(families, metric_labels_) {}

void Model::Fail(PendingRequest& pending, const Failure& failure) noexcept {
  pending.sink.Fail(failure);
  const auto level =
      failure.code == TRITONSERVER_ERROR_CANCELLED ? TRITONSERVER_LOG_INFO : TRITONSERVER_LOG_WARN;
  const ErrorHandle unlogged(Guard(
      [&] { Log(level, label_ + ", " + pending.request.Label() + ": " + Describe(failure)); }));
  if (unlogged != nullptr) Log(level, TRITONSERVER_ErrorMessage(unlogged.get()));
}

void Model::Refuse(PendingRequest& pending, const Failure& failure) noexcept {
  counters_.CountFailure(failure.reason);
  Fail(pending, failure);
}

bool Model::AnswerIfCancelled(PendingRequest& pending) {
  if (!pending.request.IsCancelled()) return false;
  counters_.CountCancelled();
  Fail(pending, {TRITONSERVER_ERROR_CANCELLED, ErrorCode::kOk, "the request was cancelled"});
  return true;
}

void Model::LogParameters(const std::vector<ParameterInfo>& parameters) const {
  std::string line = label_ + " takes";
  for (const ParameterInfo& info : parameters) {
    line.append(" ").append(info.name).append("=").append(info.value);
  }
  Log(TRITONSERVER_LOG_INFO, line);
}

}  // namespace endcap::triton
