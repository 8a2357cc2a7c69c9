#include "track/track_model.h"

#include <algorithm>
#include <cstring>
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

// The time stamps of `count` frames, which the request may lack.
std::vector<FrameInfo> ReadTimestamps(const Request& request, const InputReading& reading,
                                      int64_t count) {
  std::vector<FrameInfo> infos(static_cast<size_t>(count));
  const std::optional<InputTensor> tensor = request.FindInput(kTimestamp, reading);
  if (!tensor.has_value()) return infos;
  const std::vector<Bytes> items = tensor->Blobs();
  if (tensor->data_type() != TRITONSERVER_TYPE_FP64 || items.size() != infos.size() ||
      items.front().size() != sizeof(double)) {
    FailArgument("input 'timestamp' is not FP64 [1] for each frame");
  }
  for (size_t i = 0; i < infos.size(); ++i) {
    std::memcpy(&infos[i].timestamp.emplace(), items[i].data(), sizeof(double));
  }
  return infos;
}

bool HasFlag(const Request& request, uint32_t flag) { return (request.Flags() & flag) != 0; }

}  // namespace

struct TrackModel::Turn {
  Turn() = default;
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    if (ends && sequence != nullptr && model->sequences_.End(id, sequence.get())) {
      model->ended_.Add(1);
    }
  }

  TrackModel* model = nullptr;
  SequenceId id;
  bool ends = false;
  std::shared_ptr<Sequence> sequence;
};

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
std::unique_ptr<Instance> TrackModel::NewInstance(const ExecutionContext& execution_context) {
  const auto update = [](std::span<const TrackInput> inputs, std::span<const TrackOutput> outputs) {
    std::vector<TrackItem> items(inputs.size());
    std::vector<int64_t> ids;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const TrackInput& input = inputs[i];
      const std::scoped_lock lock(input.sequence->mutex);
      Tracker& tracker = input.sequence->tracker;
      ids.resize(input.scores.size());
      try {
        tracker.Update(input.boxes, input.scores, input.classes, ids, input.info);
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
  return std::make_unique<CoreInstance>(execution_context, update);
}

// The turn is kept until the response: the server's view of a sequence follows the flags, whatever
// becomes of the frame.
void TrackModel::Read(JobType& job, const ExecutionContext& execution_context) {
  if (job.pending->request.CorrelationId() == SequenceId{uint64_t{0}}) {
    job.pending->sink.Send();  // of a slot without a request, by the direct strategy
    return;
  }
  job.pending->state = Begin(job.pending->request);
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
  const std::vector<FrameInfo> infos = ReadTimestamps(request, on_host, count);
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
                          rows,
                          infos[static_cast<size_t>(i)]});
  }
  const auto turn = std::static_pointer_cast<Turn>(job.pending->state);
  for (TrackInput& input : job.inputs) input.sequence = turn->sequence;
}

std::shared_ptr<TrackModel::Turn> TrackModel::Begin(const Request& request) {
  auto turn = std::make_shared<Turn>();
  turn->model = this;
  turn->id = request.CorrelationId();
  turn->ends = HasFlag(request, TRITONSERVER_REQUEST_FLAG_SEQUENCE_END);
  const bool starts = HasFlag(request, TRITONSERVER_REQUEST_FLAG_SEQUENCE_START);
  Sequences::Entered entered = sequences_.Enter(turn->id, starts, Sequences::Clock::now());
  turn->sequence = std::move(entered.sequence);
  if (starts) started_.Add(1);
  if (entered.replaced) ended_.Add(1);
  return turn;
}

// Before the response is sent: whoever has it finds the sequence ended.
void TrackModel::Complete(JobType& job, const ExecutionContext&) { job.pending->state.reset(); }

}  // namespace endcap::triton
