#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "endcap/contract.h"
#include "track/sequences.h"
#include "triton_util/core_model.h"
#include "triton_util/worker.h"

namespace endcap::triton {

// Of one frame: the outputs of postprocess, and the sequence that it belongs to.
struct TrackInput {
  std::shared_ptr<Sequence> sequence;
  std::span<const float> boxes;  // of the detections only, without the rows that do not count
  std::span<const float> scores;
  std::span<const int32_t> classes;
  size_t rows = 0;  // of the outputs
  FrameInfo info;
};

struct TrackOutput {
  int64_t* track_ids = nullptr;    // [rows]
  int64_t* frame_index = nullptr;  // [1]
};

struct TrackItem {
  ItemStatus status;
};

// The detections of the frames of many sequences -> ids of tracks. State is kept for a sequence
// from the request with the start flag to that with the end flag, or until it is idle for too long.
class TrackModel final : public CoreModel<TrackInput, TrackOutput, TrackItem> {
 public:
  TrackModel(const ModelConfig& config, const MetricFamilies& families,
             const TrackSettings& settings, Sequences::Clock::duration idle);

  std::unique_ptr<Instance> NewInstance(const ExecutionContext& execution_context) override;

 protected:
  void Read(JobType& job, const ExecutionContext& execution_context) override;
  void Complete(JobType& job, const ExecutionContext& execution_context) override;

 private:
  // A request's part of its sequence, which ends with it where the client has said so.
  struct Turn;

  std::shared_ptr<Turn> Begin(const Request& request);
  void ReadFrames(JobType& job, const ExecutionContext& execution_context);
  void DropIdle();

  Sequences sequences_;
  Counter started_;
  Counter ended_;
  Counter dropped_;
  Worker worker_;  // drops idle sequences; ends before the members above
};

}  // namespace endcap::triton
