#include "preprocess/preprocess_model.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "endcap/cost.h"
#include "endcap/thread_pool.h"
#include "triton_util/tensors.h"

namespace endcap::triton {
namespace {

constexpr uint64_t kLogPeriodNs = 10'000'000'000;

// The encoded files of a request's input `encoded`: one a BYTES element, or one a row of UINT8.
// Throws kInvalidArgument unless there is one for each item.
std::vector<Bytes> EncodedFiles(const InputTensor& encoded) {
  const bool strings = encoded.data_type() == TRITONSERVER_TYPE_BYTES;
  std::vector<Bytes> files = strings ? encoded.Strings() : encoded.Blobs();
  if (std::cmp_not_equal(files.size(), encoded.item_count())) {
    throw Error(ErrorCode::kInvalidArgument,
                "input 'encoded' has " + std::to_string(files.size()) + " elements for " +
                    std::to_string(encoded.item_count()) + " images; it takes one for each");
  }
  return files;
}

// The rows of an input `rois`, float32 [K, 4] in host memory.
std::span<const Roi> AsRois(const InputTensor& tensor) {
  static_assert(sizeof(Roi) == 4 * sizeof(float));
  const ConstTensorView view = tensor.Items().first();
  if (view.dtype != DType::kFloat32 || view.rank != 2 || view.shape[1] != 4) {
    throw Error(ErrorCode::kInvalidArgument,
                "input 'rois' is no FP32 [K, 4]: give a row x1, y1, x2, y2 for each region");
  }
  return {static_cast<const Roi*>(view.data), static_cast<size_t>(view.shape[0])};
}

// The outputs of an image with that many regions: a row for each. `status` is a number for each
// region, not a tensor of one.
std::vector<TensorSpec> RegionOutputs(std::vector<TensorSpec> specs, int64_t roi_count) {
  for (TensorSpec& spec : specs) {
    if (spec.name != "status") {
      std::copy_backward(spec.shape.begin(), spec.shape.begin() + spec.rank,
                         spec.shape.begin() + spec.rank + 1);
      ++spec.rank;
    }
    spec.shape[0] = roi_count;
  }
  return specs;
}

MetricLabels WithReason(MetricLabels labels, RefusalReason reason) {
  labels.emplace_back("reason", RefusalReasonName(reason));
  return labels;
}

}  // namespace

void RareWarning::Write(std::string line) {
  const std::scoped_lock lock(mutex_);
  const uint64_t now = NowNs();
  if (written_ns_ != 0 && now - written_ns_ < kLogPeriodNs) {
    ++unwritten_;
    return;
  }
  if (unwritten_ > 0) {
    line.append("; ").append(verb_).append(" " + std::to_string(unwritten_) + " others before it");
  }
  written_ns_ = now;
  unwritten_ = 0;
  Log(TRITONSERVER_LOG_WARN, line);
}

std::vector<MetricInfo> AdmissionCounters::Families() {
  return {
      {"accepted_total", "Requests accepted under max_queue_cost"},
      {"refused_total", "Requests refused under max_queue_cost, by reason"},
      {"queued_seconds", "Predicted work that waits under max_queue_cost",
       TRITONSERVER_METRIC_KIND_GAUGE},
      {"predicted_seconds_total", "Predicted time of requests served under max_queue_cost"},
      {"measured_seconds_total", "Measured time of the same requests"},
      {"prediction_error_seconds_total", "Difference of both without sign, summed over requests"},
  };
}

AdmissionCounters::AdmissionCounters(const MetricFamilies& families, const MetricLabels& model)
    : accepted_(families.NewCounter("accepted_total", model)),
      queued_seconds_(families.NewGauge("queued_seconds", model)),
      predicted_seconds_(families.NewCounter("predicted_seconds_total", model)),
      measured_seconds_(families.NewCounter("measured_seconds_total", model)),
      error_seconds_(families.NewCounter("prediction_error_seconds_total", model)) {
  for (size_t i = 0; i < kRefusalReasonCount; ++i) {
    refused_[i] =
        families.NewCounter("refused_total", WithReason(model, static_cast<RefusalReason>(i)));
  }
}

void AdmissionCounters::CountServed(double predicted_ms, double measured_ms) noexcept {
  predicted_seconds_.Add(predicted_ms * 1e-3);
  measured_seconds_.Add(measured_ms * 1e-3);
  error_seconds_.Add(std::abs(predicted_ms - measured_ms) * 1e-3);
}

PreprocessModel::PreprocessModel(const ModelConfig& config, const MetricFamilies& families,
                                 const PreprocessSettings& settings)
    : CoreModel(config, families),
      settings_(settings),
      specs_(PreprocessOutputs(settings.params)),
      decode_seconds_(families.NewCounter("decode_seconds_total", metric_labels())),
      damaged_(families.NewCounter("damaged_total", metric_labels())) {
  LogParameters(settings.contract.parameters);
  set_tolerates_failed_items(settings.params.on_error == OnError::kBlank);
  if (settings_.max_queue_cost > 0) admission_ = AdmissionCounters(families, metric_labels());
}

std::unique_ptr<Instance> PreprocessModel::NewInstance(const ExecutionContext& execution_context) {
  if (execution_context.on_gpu() && settings_.max_queue_cost > 0) {
    throw Error(
        ErrorCode::kUnsupported,
        "max_queue_cost is for instances on the CPU, and this one is on a GPU: leave it out, "
        "or give instance_group { kind: KIND_CPU }");
  }
  const DeviceId device = execution_context.device();
  const int key = execution_context.on_gpu() ? device.id : SharedByDevice<Preprocessor>::kCpu;
  auto preprocessor = preprocessors_.Get(key, [&] {
    return std::make_shared<Preprocessor>(settings_.params, device, settings_.threads);
  });
  auto instance = std::make_unique<CoreInstance>(
      execution_context, MakeEngine(std::move(preprocessor), execution_context.stream()));
  if (execution_context.on_gpu()) return instance;
  std::optional<Admission> admission;
  if (settings_.max_queue_cost > 0) {
    // With the caller's thread alone, because threads that help have the process' own priority.
    instance->background = MakeEngine(
        std::make_shared<Preprocessor>(settings_.params, /*threads=*/1), /*stream=*/nullptr);
    admission = MakeAdmission();
  }
  const int count = settings_.threads == 0 ? AvailableCpuCount() : settings_.threads;
  instance->threads = threads_.Get(SharedByDevice<RequestThreads>::kCpu, [&] {
    return std::make_shared<RequestThreads>(
        count,
        [this](const RequestTask& task, bool in_background) {
          return ServeOne(task, in_background);
        },
        std::move(admission));
  });
  return instance;
}

PreprocessModel::Engine PreprocessModel::MakeEngine(std::shared_ptr<Preprocessor> preprocessor,
                                                    void* stream) {
  return [this, preprocessor = std::move(preprocessor), stream](auto images, auto outputs) {
    std::vector<PreprocessInput> inputs;
    inputs.reserve(images.size());
    for (size_t i = 0; i < images.size(); ++i) {
      inputs.push_back({images[i].image, images[i].rois, outputs[i]});
    }
    std::vector<PreprocessItem> items = preprocessor->Run(inputs, stream);
    Count(items);
    return items;
  };
}

Admission PreprocessModel::MakeAdmission() {
  Admission admission;
  admission.max_queue_cost = settings_.max_queue_cost;
  admission.measure = [this](const RequestTask& task) { return MeasureDemand(task); };
  admission.refuse = [this](const RequestTask& task, const Refusal& why) { Refuse(task, why); };
  admission.accepted = [this] { admission_.CountAccepted(); };
  admission.queued = [this](double ms) { admission_.SetQueued(ms); };
  admission.served = [this](double predicted_ms, double measured_ms) {
    admission_.CountServed(predicted_ms, measured_ms);
  };
  return admission;
}

Demand PreprocessModel::MeasureDemand(const RequestTask& task) const noexcept {
  constexpr double kMinMs = 1e-3;
  Demand demand;
  try {
    const Request request(task.request);
    const InputReading on_host{.batched = batched(),
                               .execution_context = task.instance->execution_context()};
    const InputTensor encoded = request.GetInput(kEncoded, on_host);
    int64_t regions = 0;
    if (settings_.with_rois) {
      regions = static_cast<int64_t>(AsRois(request.GetInput(kRois, on_host)).size());
    }
    for (const Bytes file : EncodedFiles(encoded)) {
      demand.predicted_ms +=
          PredictCostMs(settings_.params, ImageView::Encoded(file.data(), file.size()), regions);
    }
    if (const uint64_t timeout_us = request.TimeoutUs(); timeout_us > 0) {
      demand.timeout_ms = static_cast<double>(timeout_us) * 1e-3;
    }
  } catch (const std::exception&) {
    // A request that cannot be read fails when it is served.
    demand = {};
  }
  demand.predicted_ms = std::max(demand.predicted_ms, kMinMs);
  return demand;
}

void PreprocessModel::Refuse(const RequestTask& task, const Refusal& refusal) noexcept {
  admission_.CountRefusal(refusal.reason);
  Failure failure{TRITONSERVER_ERROR_UNAVAILABLE, ErrorCode::kOk, {}};
  LogIfFailed(Guard([&] {
    failure.message = DescribeRefusal(refusal);
    refusal_warning_.Write(label() + ": refused a request, " + failure.message);
  }));
  const uint64_t now = NowNs();
  {
    PendingRequest pending(task.request);
    pending.sink.Fail(failure);
    ReportRequest(task.handle, pending, {now, now, now, now});
  }
  ReleaseRequest(task.request);
  static_cast<CoreInstance&>(*task.instance).in_flight.Leave(1);
}

void PreprocessModel::Read(JobType& job, const ExecutionContext& execution_context) {
  const InputReading on_host{.batched = batched(), .execution_context = execution_context};
  job.tensors.push_back(job.pending->request.GetInput(kEncoded, on_host));
  if (settings_.with_rois) job.tensors.push_back(job.pending->request.GetInput(kRois, on_host));
  for (const Bytes file : EncodedFiles(job.tensors[0])) {
    job.inputs.push_back({ImageView::Encoded(file.data(), file.size()), std::nullopt, {}});
  }
  if (settings_.with_rois || settings_.params.slices()) {
    AllocateRegions(job, execution_context);
  } else {
    AllocateImages(job, execution_context);
  }
}

void PreprocessModel::AllocateImages(JobType& job, const ExecutionContext& execution_context) {
  const auto count = static_cast<int64_t>(job.inputs.size());
  const MemoryPlace gpu_or_cpu = execution_context.memory();
  RequestOutputs& results = job.results;
  results.Add(specs_[0], count, {gpu_or_cpu, gpu_or_cpu}, counters());
  results.Add(specs_[1], count, {}, counters());
  results.Add(specs_[2], count, {}, counters());
  results.Allocate();
  for (int64_t i = 0; i < count; ++i) {
    job.outputs.push_back({{results[0][i], results[1].Data<float>(i), results[2].Data<int32_t>(i),
                            static_cast<int>(i)}});
  }
}

void PreprocessModel::AllocateRegions(JobType& job, const ExecutionContext& execution_context) {
  SourceImage& source = job.inputs.front();
  if (settings_.with_rois) {
    source.rois = AsRois(job.tensors[1]);
  } else {
    source.tiles = ReadTiles(settings_.params, source.image);
    source.rois = source.tiles;
  }
  const auto count = std::ssize(*source.rois);
  CheckRoiTensors(settings_.params, count);
  const MemoryPlace gpu_or_cpu = execution_context.memory();
  RequestOutputs& results = job.results;
  const std::vector<TensorSpec> specs = RegionOutputs(specs_, count);
  results.Add(specs[0], 1, {gpu_or_cpu, gpu_or_cpu}, counters());
  results.Add(specs[1], 1, {}, counters());
  results.Add(specs[2], 1, {}, counters());
  results.Allocate();
  const auto rows = [&](size_t output) {
    const TensorView all = results[output].first();
    return OutputItemsAt(specs_[output], all.data, {all.device, all.device_id});
  };
  std::vector<PreprocessOutput>& outputs = job.outputs.emplace_back();
  for (int64_t i = 0; i < count; ++i) {
    outputs.push_back({rows(0)[i], rows(1).Data<float>(i), rows(2).Data<int32_t>(i), 0});
  }
}

void PreprocessModel::Count(std::span<const PreprocessItem> items) {
  int64_t decode_ns = 0;
  for (const PreprocessItem& item : items) {
    decode_ns += item.decode_ns;
    if (item.damage.empty()) continue;
    damaged_.Add(1);
    damage_warning_.Write(label() + ": decoded a damaged JPEG, " + item.damage);
  }
  decode_seconds_.Add(static_cast<double>(decode_ns) * 1e-9);
}

// The stages take turns, band by band: the spans have their total times, one after the other.
void PreprocessModel::Trace(const PreprocessItem& item, RequestTrace& trace) const noexcept {
  if (item.start_ns == 0) return;
  if (!item.status.ok()) {
    const int64_t total_ns = item.decode_ns + item.resize_ns;
    trace.AddSpan({ErrorCodeName(item.status.code), item.start_ns, total_ns});
    return;
  }
  trace.AddSpan({"decode", item.start_ns, item.decode_ns});
  trace.AddSpan({"resize", item.start_ns + item.decode_ns, item.resize_ns});
}

}  // namespace endcap::triton
