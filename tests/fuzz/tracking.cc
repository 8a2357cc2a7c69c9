// Frames of detections to a tracker that may begin with a saved state: ids are given once, a state
// that is accepted comes back as it was, and a restored tracker goes on as the saved one.

#include "endcap/tracking.h"

#include <set>

#include "agreement.h"

namespace endcap::fuzz {
namespace {

TrackingParams PickParams(FuzzInput& input) {
  TrackingParams params;
  params.high_score_threshold = input.Number(0.0, 1.0);
  params.low_score_threshold = input.Number(0.0, params.high_score_threshold);
  params.new_track_threshold = input.Number(0.0, 1.0);
  params.match_threshold = input.Number(0.0, 1.0);
  params.second_match_threshold = input.Number(0.0, 1.0);
  params.unconfirmed_match_threshold = input.Number(0.0, 1.0);
  params.fuse_score = input.Bool();
  params.class_agnostic = input.Bool();
  params.max_lost_frames = input.Int(0, 5);
  params.duplicate_iou = input.Number(0.0, 1.0);
  params.max_tracks = input.Int(1, 30);
  const int more = input.Int(0, 255);
  params.method = static_cast<TrackingMethod>(more % 3);
  params.confirm_frames = 1 + more / 3 % 4;
  params.direction_frames = 1 + more / 12 % 4;
  params.direction_weight = more % 5 / 4.0;
  return params;
}

struct Frame {
  std::vector<float> boxes, scores;
  std::vector<int32_t> classes;
  FrameInfo info;
};

Frame MakeFrame(FuzzInput& input, int number) {
  Noise noise(input.Word(2));
  Frame frame;
  const size_t count = input.Size(25);
  const int steps = input.Pick(std::array{4, 30, 1 << 20});
  for (size_t i = 0; i < count; ++i) {
    const float x = noise.Number(0.0, 100.0, steps);
    const float y = noise.Number(0.0, 100.0, steps);
    const float width = noise.Number(-1.0, 60.0, steps);
    const float height = noise.Number(-1.0, 60.0, steps);
    frame.boxes.insert(frame.boxes.end(), {x, y, x + width, y + height});
    frame.scores.push_back(noise.Number(0.0, 1.0, steps));
    frame.classes.push_back(noise.Below(2));
  }
  if (count > 0 && input.Happens(24)) frame.boxes[input.Size(4 * count - 1)] = input.AnyFloat();
  if (count > 0 && input.Happens(8)) frame.scores[input.Size(count - 1)] = input.AnyFloat();
  if (input.Happens(8)) frame.classes.clear();
  if (noise.Below(4) > 0) {
    frame.info.timestamp = double{noise.Number(0.9, 1.1, steps)} * number;
  }
  if (noise.Below(4) == 0) {
    for (double& each : frame.info.camera_motion) each += noise.Number(-0.5, 0.5, steps);
  }
  return frame;
}

Outcome Update(Tracker& tracker, const Frame& frame) {
  return Capture([&](Outcome& outcome) {
    std::vector<int64_t> ids(frame.scores.size(), 7);
    const size_t before = tracker.track_count();
    tracker.Update(frame.boxes, frame.scores, frame.classes, ids, frame.info);
    std::set<int64_t> given;
    for (const int64_t id : ids) {
      Require(id == kNoTrack || (id > 0 && given.insert(id).second), "id ", id, " is given twice");
    }
    const auto most = static_cast<size_t>(tracker.params().max_tracks);
    Require(tracker.track_count() <= std::max(before, most), "there are too many tracks");
    outcome.Add(ids);
  });
}

}  // namespace
}  // namespace endcap::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace endcap;
  using namespace endcap::fuzz;
  FuzzInput input(data, size);
  const TrackingParams params = PickParams(input);
  Tracker tracker(params);
  const bool begins_restored = input.Bool();
  if (begins_restored) {
    const std::vector<uint8_t> bytes = input.Bytes(1200);
    const std::string state(bytes.begin(), bytes.end());
    const Outcome restored = Capture([&](Outcome&) { tracker.Restore(state); });
    Require(restored.ok() ? tracker.Save() == state : tracker.frames() == 0,
            "a state does not come back as it was");
  }
  const int frames = input.Int(0, 8);
  for (int i = 0; i < frames; ++i) {
    const Frame frame = MakeFrame(input, i);
    const std::string before = tracker.Save();
    Tracker other(params);
    const bool is_saved = Capture([&](Outcome&) { other.Restore(before); }).ok();
    const Outcome outcome = Update(tracker, frame);
    Require(is_saved || begins_restored, "a state of our own is refused");
    if (is_saved) RequireEqual(outcome, Update(other, frame), "ids after a saved state");
    if (!outcome.ok()) Require(tracker.Save() == before, "a refused frame changed the tracks");
  }
  return 0;
}
