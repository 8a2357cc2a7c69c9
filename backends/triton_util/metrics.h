#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "endcap/error.h"
#include "triton_util/triton_api.h"

namespace endcap::triton {

// A Triton custom metric of kind counter. Default-constructed, or if the server has metrics off, it
// counts nothing. Thread-safe.
class Counter {
 public:
  Counter() = default;
  explicit Counter(MetricHandle metric) noexcept : metric_(std::move(metric)) {}
  void Add(double value) noexcept;

 private:
  MetricHandle metric_;
};

// The same of kind gauge.
class Gauge {
 public:
  Gauge() = default;
  explicit Gauge(MetricHandle metric) noexcept : metric_(std::move(metric)) {}
  void Set(double value) noexcept;

 private:
  MetricHandle metric_;
};

struct MetricInfo {
  std::string name;  // after the backend's name: "truncated_total"
  std::string description;
  TRITONSERVER_MetricKind kind = TRITONSERVER_METRIC_KIND_COUNTER;
};

using MetricLabels = std::vector<std::pair<std::string, std::string>>;

// The metric families of one backend, one per metric name. Its models share them, because families
// of one name remove each other's metrics.
class MetricFamilies {
 public:
  // Creates "<backend>_images_total", "<backend>_failed_total" and "<backend>_spills_total", which
  // every stage has, and `more`. If the server has metrics off, this is logged, and counters count
  // nothing.
  MetricFamilies(std::string_view backend, const std::vector<MetricInfo>& more);

  Counter NewCounter(std::string_view name, const MetricLabels& labels) const {
    return Counter(NewMetric(name, labels));
  }
  Gauge NewGauge(std::string_view name, const MetricLabels& labels) const {
    return Gauge(NewMetric(name, labels));
  }

 private:
  // Null if the server has metrics off.
  MetricHandle NewMetric(std::string_view name, const MetricLabels& labels) const;
  void Add(std::string_view backend, const MetricInfo& info);

  std::vector<std::pair<std::string, MetricFamilyHandle>> families_;
};

inline constexpr int kErrorCodeCount = static_cast<int>(ErrorCode::kInternal) + 1;

// The counters that every stage has for one model, with the labels model and version.
class StageCounters {
 public:
  StageCounters(const MetricFamilies& families, const MetricLabels& model);

  void CountImages(size_t images) noexcept { images_.Add(static_cast<double>(images)); }
  void CountFailure(ErrorCode reason) noexcept { failed_[static_cast<size_t>(reason)].Add(1); }
  // See Failure::IsOfUnavailableModel.
  void CountUnavailable() noexcept { unavailable_.Add(1); }
  void CountCancelled() noexcept { cancelled_.Add(1); }
  void CountSpill() noexcept { spills_.Add(1); }

 private:
  Counter images_;
  std::array<Counter, kErrorCodeCount> failed_;  // by reason; none for kOk
  Counter unavailable_;
  Counter cancelled_;
  Counter spills_;
};

}  // namespace endcap::triton
