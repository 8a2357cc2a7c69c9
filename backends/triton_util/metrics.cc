#include "triton_util/metrics.h"

#include "triton_util/errors.h"

namespace endcap::triton {
namespace {

constexpr std::string_view kImages = "images_total";
constexpr std::string_view kFailed = "failed_total";
constexpr std::string_view kSpills = "spills_total";

MetricLabels WithReason(MetricLabels labels, std::string_view reason) {
  labels.emplace_back("reason", reason);
  return labels;
}

ParameterHandle NewLabel(const std::string& key, const std::string& value) {
  return ParameterHandle(
      TRITONSERVER_ParameterNew(key.c_str(), TRITONSERVER_PARAMETER_STRING, value.c_str()));
}

}  // namespace

void Counter::Add(double value) noexcept {
  if (metric_ == nullptr) return;
  LogIfFailed(TRITONSERVER_MetricIncrement(metric_.get(), value), TRITONSERVER_LOG_VERBOSE);
}

void Gauge::Set(double value) noexcept {
  if (metric_ == nullptr) return;
  LogIfFailed(TRITONSERVER_MetricSet(metric_.get(), value), TRITONSERVER_LOG_VERBOSE);
}

MetricFamilies::MetricFamilies(std::string_view backend, const std::vector<MetricInfo>& more) {
  Add(backend, {std::string(kImages), "Images processed without an error"});
  Add(backend, {std::string(kFailed), "Images, or whole requests, that failed, by reason"});
  Add(backend, {std::string(kSpills), "Outputs that were promised GPU memory and got another"});
  for (const MetricInfo& info : more) Add(backend, info);
}

void MetricFamilies::Add(std::string_view backend, const MetricInfo& info) {
  const std::string full_name = std::string(backend) + "_" + info.name;
  TRITONSERVER_MetricFamily* raw = nullptr;
  const ErrorHandle error(
      TRITONSERVER_MetricFamilyNew(&raw, info.kind, full_name.c_str(), info.description.c_str()));
  if (error != nullptr) {
    Log(TRITONSERVER_LOG_INFO,
        "metric " + full_name + " is not kept: " + TRITONSERVER_ErrorMessage(error.get()));
    return;
  }
  families_.emplace_back(info.name, raw);
}

MetricHandle MetricFamilies::NewMetric(std::string_view name, const MetricLabels& labels) const {
  for (const auto& [family_name, family] : families_) {
    if (family_name != name) continue;
    std::vector<ParameterHandle> owners;
    std::vector<const TRITONSERVER_Parameter*> parameters;
    for (const auto& [key, value] : labels) {
      parameters.push_back(owners.emplace_back(NewLabel(key, value)).get());
    }
    TRITONSERVER_Metric* raw = nullptr;
    Check(TRITONSERVER_MetricNew(&raw, family.get(), parameters.data(), parameters.size()));
    return MetricHandle(raw);
  }
  return nullptr;
}

StageCounters::StageCounters(const MetricFamilies& families, const MetricLabels& model)
    : images_(families.NewCounter(kImages, model)),
      unavailable_(families.NewCounter(kFailed, WithReason(model, "unavailable"))),
      cancelled_(families.NewCounter(kFailed, WithReason(model, "cancelled"))),
      spills_(families.NewCounter(kSpills, model)) {
  for (int code = 1; code < kErrorCodeCount; ++code) {
    const std::string_view reason = ErrorCodeName(static_cast<ErrorCode>(code));
    failed_[static_cast<size_t>(code)] = families.NewCounter(kFailed, WithReason(model, reason));
  }
}

}  // namespace endcap::triton
