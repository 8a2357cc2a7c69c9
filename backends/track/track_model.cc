#include "track/track_model.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "endcap/error.h"
#include "triton_util/errors.h"
#include "triton_util/tensors.h"

namespace endcap::triton {
namespace {

constexpr auto kSweepPeriod = std::chrono::milliseconds(500);

enum TrackTensor : size_t { kNum, kBoxes, kScores, kClasses, kTensors };  // of kTrackInputs

[[noreturn]] void FailArgument(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

InputItems ReadInput(const Request& request, const TensorSpec& spec, const InputReading& reading,
                     std::vector<InputTensor>& keep) {
  const InputItems items = keep.emplace_back(request.GetInput(spec.name, reading)).Items();
  const ConstTensorView& item = items.first();
  bool fits = item.dtype == spec.dtype && item.rank == spec.rank;
  for (int axis = 0; fits && axis < spec.rank; ++axis) {
    const int64_t size = spec.shape[static_cast<size_t>(axis)];
    fits = size < 0 || size == item.shape[static_cast<size_t>(axis)];
  }
  if (!fits) {
    FailArgument("input '" + std::string(spec.name) +
                 "' has another shape or type than postprocess gives");
  }
  return items;
}

bool HasFlag(const Request& request, uint32_t flag) { return (request.Flags() & flag) != 0; }

}  // namespace

TrackModel::TrackModel(const ModelConfig& config, const MetricFamilies& families,
                       const TrackSettings& settings, Sequences::Clock::duration idle)
    : CoreModel(config, families),
      sequences_(settings.params, static_cast<size_t>(settings.max_sequences), idle),
      started_(families.NewCounter("sequences_started_total", metric_labels())),
      ended_(families.NewCounter("sequences_ended_total", metric_labels())),
      dropped_(families.NewCounter("sequences_dropped_total", metric_labels())),
      worker_([this] { DropIdle(); }, kSweepPeriod) {
  LogParameters(settings.contract.parameters);
  Worker::PreparedTask task;
  task.emplace_back([this] { worker_.SetTicking(true); });
  worker_.Post(std::move(task));
}

void TrackModel::DropIdle() {
  dropped_.Add(static_cast<double>(sequences_.DropIdle(Sequences::Clock::now())));
}

// Frames of one sequence come one after the other, those of different ones at the same time.
TrackModel::Engine TrackModel::NewEngine(const ExecutionContext& /*execution_context*/) {
  return [](std::span<const TrackInput> inputs, std::span<const TrackOutput> outputs) {
    std::vector<TrackItem> items(inputs.size());
    std::vector<int64_t> ids;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const TrackInput& input = inputs[i];
      const std::scoped_lock lock(input.sequence->mutex);
      Tracker& tracker = input.sequence->tracker;
      ids.resize(input.scores.size());
      try {
        tracker.Update(input.boxes, input.scores, input.classes, ids);
      } catch (...) {
        items[i].status = MakeStatusFromCurrentException();
        continue;
      }
      if (outputs[i].frame_index != nullptr) *outputs[i].frame_index = tracker.frames() - 1;
      if (outputs[i].track_ids == nullptr) continue;
      const auto end = std::ranges::copy(ids, outputs[i].track_ids).out;
      std::fill(end, outputs[i].track_ids + input.rows, kNoTrack);
    }
    return items;
  };
}

void TrackModel::Prepare(JobType& job, const ExecutionContext& execution_context) {
  ReadFrames(job, execution_context);
  const auto count = static_cast<int64_t>(job.inputs.size());
  TensorSpec ids = kTrackIds;
  ids.shape[0] = static_cast<int64_t>(job.inputs.front().rows);
  RequestOutputs& results = job.results;
  results.Add(ids, count, {}, counters());
  results.Add(kFrameIndex, count, {}, counters());
  results.Allocate();
  for (int64_t i = 0; i < count; ++i) {
    job.outputs.push_back({results[0].Data<int64_t>(i), results[1].Data<int64_t>(i)});
  }
}

void TrackModel::ReadFrames(JobType& job, const ExecutionContext& execution_context) {
  const Request& request = job.pending->request;
  const InputReading on_host{batched(), execution_context, false};
  std::array<InputItems, kTensors> tensors;
  for (size_t n = 0; n < kTensors; ++n) {
    tensors[n] = ReadInput(request, kTrackInputs[n], on_host, job.tensors);
  }
  const int64_t count = job.tensors.front().item_count();
  const auto rows = static_cast<size_t>(tensors[kScores].first().shape[0]);
  for (size_t n = 0; n < kTensors; ++n) {
    const bool same_rows = n == kNum || static_cast<size_t>(tensors[n].first().shape[0]) == rows;
    if (job.tensors[n].item_count() != count || !same_rows) {
      FailArgument("the inputs differ in their images or rows");
    }
  }
  for (int64_t i = 0; i < count; ++i) {
    const int32_t found = *tensors[kNum].Data<const int32_t>(i);
    if (found < 0 || static_cast<size_t>(found) > rows) {
      FailArgument("num_detections is " + std::to_string(found) + ": there are " +
                   std::to_string(rows) + " rows");
    }
    const auto used = static_cast<size_t>(found);
    job.inputs.push_back({nullptr,
                          {tensors[kBoxes].Data<const float>(i), 4 * used},
                          {tensors[kScores].Data<const float>(i), used},
                          {tensors[kClasses].Data<const int32_t>(i), used},
                          rows});
  }
  const auto sequence = std::static_pointer_cast<Sequence>(job.pending->state);
  for (TrackInput& input : job.inputs) input.sequence = sequence;
}

// Before the inputs are read and whether the client has cancelled: the server's view of a sequence
// follows the flags, whatever becomes of the frame.
bool TrackModel::Begin(PendingRequest& pending) {
  const SequenceId id = pending.request.CorrelationId();
  if (id == SequenceId{uint64_t{0}}) {  // of a slot without a request, by the direct strategy
    pending.sink.Send();
    return false;
  }
  const bool starts = HasFlag(pending.request, TRITONSERVER_REQUEST_FLAG_SEQUENCE_START);
  Sequences::Entered entered = sequences_.Enter(id, starts, Sequences::Clock::now());
  if (starts) started_.Add(1);
  if (entered.replaced) ended_.Add(1);
  pending.state = std::move(entered.sequence);
  return true;
}

// Before the response is sent: whoever has it finds the sequence ended.
void TrackModel::Complete(JobType& job, const ExecutionContext&) { End(*job.pending); }

void TrackModel::End(PendingRequest& pending) noexcept {
  const auto* sequence = static_cast<const Sequence*>(pending.state.get());
  if (sequence == nullptr) return;
  // Where the server gives no flags or no id, the sequence is dropped when it has been idle.
  LogIfFailed(Guard([&] {
    if (!HasFlag(pending.request, TRITONSERVER_REQUEST_FLAG_SEQUENCE_END)) return;
    if (sequences_.End(pending.request.CorrelationId(), sequence)) ended_.Add(1);
  }));
}

}  // namespace endcap::triton
