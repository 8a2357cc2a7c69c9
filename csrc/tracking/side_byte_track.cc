#include <algorithm>
#include <memory>
#include <vector>

#include "common/score_order.h"
#include "endcap/tracking.h"
#include "tracking/method.h"

// ByteTrack (arXiv 2110.06864), with the filter of four sides and the ids of Roboflow's `trackers`:
// a track has its id from the frame on that confirms it, and thresholds apply after assignment.

namespace endcap {
namespace {

constexpr uint64_t kMark = 0x424B'4341'5254'4345;  // "ECTRACKB"

struct Track {
  int64_t id;  // kNoTrack until it is confirmed
  int32_t class_id;
  double missed;        // frames since the last detection
  int64_t consecutive;  // frames with a detection, without a gap
  SideMotion motion;

  void Move(const CameraMotion& camera) { motion.Move(camera); }
  void Visit(SavedState& state) {
    state.Integer(id, kNoTrack, kMaxSavedIds);
    state.Integer(class_id, INT32_MIN, INT32_MAX);
    state.Number(missed, 0.0, kMaxSavedFrames);
    state.Integer(consecutive, 0, kMaxSavedFrames);
    motion.Visit(state);
  }
};

struct Scratch : MatchScratch {
  std::vector<Detection> high, low;
  std::vector<int32_t> unmatched;  // numbers of tracks
};

class SideByteTrack final : public TrackList<Track> {
 public:
  explicit SideByteTrack(const TrackingParams& params) : TrackList(params, kMark) {}

 private:
  void UpdateTracks(std::span<const Detection> detections, std::span<int64_t> track_ids) override {
    thread_local Scratch scratch;
    const TrimOnExit trim(scratch);
    scratch.high.clear();
    scratch.low.clear();
    for (const Detection& detection : detections) {
      if (AtLeast(detection.score, params_.high_score_threshold)) {
        scratch.high.push_back(detection);
      } else if (AtLeast(detection.score, params_.low_score_threshold)) {
        scratch.low.push_back(detection);
      }
    }
    scratch.unmatched.clear();
    for (Track& track : tracks_) {
      scratch.unmatched.push_back(static_cast<int32_t>(scratch.unmatched.size()));
      track.motion.Predict(step_);
      if (track.missed > 0) track.consecutive = 0;
      track.missed += step_;
    }
    Match(scratch.high, params_.match_threshold, scratch, track_ids);
    Match(scratch.low, params_.second_match_threshold, scratch, track_ids);
    StartTracks(scratch.high, [](const Detection& first) {
      return Track{kNoTrack, first.class_id, 0.0, 1, SideMotion(first.corners)};
    });
    EndTracks();
  }

  void SkipFrame() override {
    for (Track& track : tracks_) {
      track.motion.Predict(step_);
      if (track.missed > 0) track.missed += step_;
    }
    EndTracks();
  }

  void EndTracks() {
    std::erase_if(tracks_, [&](const Track& track) {
      return IsTooLong(track.missed) || (track.id == kNoTrack && track.missed > 0);
    });
  }

  // A match counts where it overlaps enough, but others that are assigned do take their places.
  void Match(std::vector<Detection>& detections, double threshold, Scratch& scratch,
             std::span<int64_t> track_ids) {
    Associate(
        scratch.unmatched, detections, scratch,
        [](const Track& track) { return track.motion.box(); },
        [](const Detection& /*detection*/, double iou) { return RoundToFloat(iou); },
        [&](Track& track, const Detection& detection, double iou) {
          if (!AtLeast(iou, 1.0 - threshold)) return false;
          track.motion.Correct(detection.corners);
          track.class_id = detection.class_id;
          track.missed = 0;
          ++track.consecutive;
          if (track.id == kNoTrack && track.consecutive >= params_.confirm_frames) {
            track.id = next_id_++;
          }
          track_ids[static_cast<size_t>(detection.index)] = track.id;
          return true;
        });
  }
};

}  // namespace

std::unique_ptr<TrackingMethodState> MakeSideByteTrack(const TrackingParams& params) {
  return std::make_unique<SideByteTrack>(params);
}

}  // namespace endcap
