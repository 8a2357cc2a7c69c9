#include "onnx/onnx_model.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "endcap/thread_pool.h"
#include "triton_util/errors.h"
#include "triton_util/trace.h"

namespace endcap::triton {
namespace {

// Returns the options for arena shrinkage; null if the config does not have it.
OrtHandle<OrtRunOptions> CreateRunOptions(const OnnxRuntime& runtime,
                                          const OnnxSettings& settings) {
  const OrtApi& api = runtime.api();
  if (settings.arena_shrinkage.empty()) return {nullptr, api.ReleaseRunOptions};
  OrtRunOptions* raw = nullptr;
  runtime.Check(api.CreateRunOptions(&raw));
  OrtHandle<OrtRunOptions> options(raw, api.ReleaseRunOptions);
  runtime.Check(api.AddRunConfigEntry(raw, "memory.enable_memory_arena_shrinkage",
                                      settings.arena_shrinkage.c_str()));
  return options;
}

// Clients repeat a request that a server did not take. Allocated when the library is loaded.
// NOLINTNEXTLINE(bugprone-throwing-static-initialization)
const Failure kServerEnds{TRITONSERVER_ERROR_UNAVAILABLE, ErrorCode::kInternal,
                          "the server is ending: repeat the request", /*has_own_context=*/true};

}  // namespace

OnnxModel::OnnxModel(const ModelConfig& config, const MetricFamilies& families,
                     std::shared_ptr<OnnxRuntime> runtime, OnnxSettings settings,
                     std::shared_ptr<SessionPair> cpu_sessions)
    : Model(config, families),
      runtime_(std::move(runtime)),
      settings_(std::move(settings)),
      run_options_(CreateRunOptions(*runtime_, settings_)),
      cpu_sessions_(std::move(cpu_sessions)),
      runs_(families.NewCounter("runs_total", metric_labels())),
      shared_runs_(families.NewCounter("shared_runs_total", metric_labels())) {
  Log(TRITONSERVER_LOG_INFO, label() + " is run by " + runtime_->label());
}

bool OnnxModel::MergesRequests(const ExecutionContext& execution_context) const noexcept {
  return settings_.merge_requests.value_or(execution_context.on_gpu());
}

int OnnxModel::CountConcurrentRuns() const noexcept {
  if (settings_.max_concurrent_runs > 0) return settings_.max_concurrent_runs;
  return std::max(1, AvailableCpuCount() / std::max(1, settings_.intra_op_threads));
}

std::unique_ptr<Instance> OnnxModel::NewInstance(const ExecutionContext& execution_context) {
  if (!execution_context.on_gpu() && settings_.names_gpu_providers) {
    throw Error(ErrorCode::kInvalidArgument,
                "the config names a gpu_execution_accelerator, but an instance is on the CPU: give "
                "instance_group { kind: KIND_GPU }, or leave execution_accelerators out");
  }
  auto instance = std::make_unique<OnnxInstance>(execution_context);
  if (execution_context.on_gpu()) {
    const int device_id = execution_context.target().device_id;
    instance->sessions = sessions_.Get(device_id, [&] {
      return std::make_shared<SessionPair>(*runtime_, settings_, label(), device_id);
    });
  } else {
    instance->sessions = sessions_.Get(SharedByDevice<SessionPair>::kCpu, [this] {
      if (cpu_sessions_ != nullptr) return std::move(cpu_sessions_);
      return std::make_shared<SessionPair>(*runtime_, settings_, label(), std::nullopt);
    });
  }
  if (!MergesRequests(execution_context)) {
    const int device = execution_context.on_gpu() ? execution_context.target().device_id
                                                  : SharedByDevice<RequestThreads>::kCpu;
    instance->threads = threads_.Get(device, [this] {
      return std::make_shared<RequestThreads>(
          CountConcurrentRuns(), [this](const RequestTask& task, bool /*in_background*/) {
            auto& owner = static_cast<OnnxInstance&>(*task.instance);
            TRITONBACKEND_Request* request = task.request;
            const bool succeeded = Serve(task.handle, owner, {&request, 1});
            owner.in_flight.Leave(1);
            return succeeded;
          });
    });
  }
  return instance;
}

void OnnxModel::Execute(TRITONBACKEND_ModelInstance* handle, Instance& instance,
                        std::span<TRITONBACKEND_Request*> requests) noexcept {
  auto& onnx_instance = static_cast<OnnxInstance&>(instance);
  if (!onnx_instance.Enqueue(handle, requests)) Serve(handle, onnx_instance, requests);
}

bool OnnxModel::Serve(TRITONBACKEND_ModelInstance* handle, const OnnxInstance& instance,
                      std::span<TRITONBACKEND_Request*> requests) noexcept {
  return ServeRequests(handle, requests, [&](auto pending_requests, ExecutionTimes& times) {
    std::vector<NetworkRequest> read = ReadRequests(instance, pending_requests);
    times.compute_start_ns = NowNs();
    RunAll(instance, read);
    times.compute_end_ns = NowNs();
  });
}

void OnnxModel::RunAll(const OnnxInstance& instance, std::span<NetworkRequest> requests) {
  while (!requests.empty()) {
    const auto begin_of_others = std::partition(
        requests.begin(), requests.end(), [first = &requests.front()](const NetworkRequest& each) {
          return &each == first || HaveEqualShapes(each, *first);
        });
    const auto count = static_cast<size_t>(begin_of_others - requests.begin());
    RunMerged(instance, requests.first(count));
    requests = requests.subspan(count);
  }
}

std::vector<NetworkRequest> OnnxModel::ReadRequests(const OnnxInstance& instance,
                                                    std::span<PendingRequest> pending_requests) {
  // Inputs of merged requests are gathered in host memory.
  const InputReading reading{batched(), instance.execution_context(), pending_requests.size() == 1};
  std::vector<NetworkRequest> requests;
  requests.reserve(pending_requests.size());
  for (PendingRequest& pending : pending_requests) {
    Attempt(pending, [&] {
      if (RespondIfCancelled(pending)) return;
      requests.push_back(ReadNetworkRequest(pending, *instance.sessions, reading));
    });
  }
  return requests;
}

void OnnxModel::RunMerged(const OnnxInstance& instance, std::span<NetworkRequest> requests) {
  if (!batched() || requests.size() == 1) {
    RunEach(instance, requests);
    return;
  }
  try {
    Run(instance, requests);
  } catch (...) {
    // Run each alone, so that only the requests at fault fail.
    RunEach(instance, requests);
  }
}

void OnnxModel::RunEach(const OnnxInstance& instance, std::span<NetworkRequest> requests) {
  for (NetworkRequest& request : requests) {
    Attempt(*request.pending, [&] { Run(instance, {&request, 1}); });
  }
}

void OnnxModel::Run(const OnnxInstance& instance, std::span<NetworkRequest> requests) {
  const auto start_ns = static_cast<int64_t>(NowNs());
  SessionPair::Lease lease(*instance.sessions);
  if (OnnxRuntime::IsExiting()) {
    for (NetworkRequest& request : requests) FailRequest(*request.pending, kServerEnds);
    return;
  }
  NetworkRun run({*runtime_, *instance.sessions, lease.session(), run_options_.get(),
                  instance.execution_context(), batched(), counters()},
                 requests);
  run.Run();
  std::call_once(first_run_, OnnxRuntime::DelayExit);
  // Before the response, after which a client may send its next request.
  lease.End();
  const auto end_ns = static_cast<int64_t>(NowNs());
  runs_.Add(1);
  if (lease.has_shared_threads()) shared_runs_.Add(1);
  for (size_t i = 0; i < requests.size(); ++i) {
    Attempt(*requests[i].pending, [&] { Complete(run, requests, i); });
    RequestTrace trace(requests[i].pending->request.handle());
    trace.AddSpan({"run", start_ns, end_ns - start_ns});
  }
}

void OnnxModel::Complete(NetworkRun& run, std::span<NetworkRequest> requests, size_t index) {
  PendingRequest& pending = *requests[index].pending;
  pending.item_count = requests[index].item_count;
  if (RespondIfCancelled(pending)) return;
  run.AddOutputs(index);
  counters().CountImages(static_cast<size_t>(requests[index].item_count));
  pending.sink.Send();
}

}  // namespace endcap::triton
