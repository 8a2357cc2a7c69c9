#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "common/score_order.h"
#include "endcap/tracking.h"
#include "tracking/method.h"

// ByteTrack (arXiv 2110.06864), with the phases and ids of Ultralytics' tracker.

namespace endcap {
namespace {

constexpr uint64_t kMark = 0x414B'4341'5254'4345;  // "ECTRACKA"

enum class TrackPhase : uint8_t { kUnconfirmed, kTracked, kLost };
constexpr int64_t kPhases = 3;

struct Track {
  int64_t id;
  TrackPhase phase;
  bool is_overdue;  // was lost for too long: ends as soon as it is lost again, or still
  int32_t class_id;
  double seen;    // frames from the first detection to the last one
  double missed;  // frames since the last detection
  AspectMotion motion;
  int32_t detection = -1;  // of this frame

  void Predict(double frames) {
    if (phase == TrackPhase::kLost) motion.StopHeight();
    motion.Predict(frames);
  }
  void Move(const CameraMotion& camera) { motion.Move(camera); }

  void Visit(SavedState& state) {
    state.Integer(id, 1, kMaxSavedIds);
    int64_t phase_number = static_cast<int64_t>(phase) + (is_overdue ? kPhases : 0);
    state.Integer(phase_number, 0, 2 * kPhases - 1);
    phase = static_cast<TrackPhase>(phase_number % kPhases);
    is_overdue = phase_number >= kPhases;
    state.Integer(class_id, INT32_MIN, INT32_MAX);
    state.Number(seen, 0.0, kMaxSavedFrames);
    state.Number(missed, 0.0, kMaxSavedFrames);
    motion.Visit(state);
  }
};

struct Scratch : MatchScratch {
  std::vector<Detection> high, low;
  std::vector<int32_t> confirmed, unconfirmed;  // numbers of tracks
  std::vector<std::pair<size_t, Corners>> lost;
};

class ByteTrack final : public TrackList<Track> {
 public:
  explicit ByteTrack(const TrackingParams& params) : TrackList(params, kMark) {}

 private:
  void UpdateTracks(std::span<const Detection> detections, std::span<int64_t> track_ids) override {
    thread_local Scratch scratch;
    const TrimOnExit trim(scratch);
    scratch.high.clear();
    scratch.low.clear();
    for (const Detection& detection : detections) {
      if (detection.score >= params_.high_score_threshold) {
        scratch.high.push_back(detection);
      } else if (detection.score > params_.low_score_threshold) {
        scratch.low.push_back(detection);
      }
    }
    Step(scratch);
    for (const Track& track : tracks_) {
      if (track.detection < 0 || track.phase != TrackPhase::kTracked) continue;
      track_ids[static_cast<size_t>(track.detection)] = track.id;
    }
  }

  void SkipFrame() override {
    for (Track& track : tracks_) {
      track.missed += step_;
      track.Predict(step_);
    }
    AgeLostTracks();
    RemoveEnded();
  }

  // A match costs 1 - IoU, or 1 - IoU * score, and less than `most_cost`.
  void Match(std::vector<int32_t>& wanted, std::vector<Detection>& detections, double most_cost,
             bool fuse_score, Scratch& scratch) {
    Associate(
        wanted, detections, scratch, [](const Track& track) { return track.motion.box(); },
        [&](const Detection& detection, double iou) {
          return most_cost - (1.0 - (fuse_score ? iou * detection.score : iou));
        },
        [](Track& track, const Detection& detection, double /*gain*/) {
          track.motion.Correct(detection.corners);
          track.phase = TrackPhase::kTracked;
          track.class_id = detection.class_id;
          track.seen += std::exchange(track.missed, 0.0);
          track.detection = detection.index;
          return true;
        });
  }

  void Step(Scratch& scratch) {
    scratch.confirmed.clear();
    scratch.unconfirmed.clear();
    for (size_t i = 0; i < tracks_.size(); ++i) {
      Track& track = tracks_[i];
      track.missed += step_;
      track.detection = -1;
      if (track.phase == TrackPhase::kUnconfirmed) {
        scratch.unconfirmed.push_back(static_cast<int32_t>(i));
        continue;
      }
      track.Predict(step_);
      scratch.confirmed.push_back(static_cast<int32_t>(i));
    }
    Match(scratch.confirmed, scratch.high, params_.match_threshold, params_.fuse_score, scratch);
    // Lost tracks come back by high scores only.
    std::erase_if(scratch.confirmed, [&](int32_t number) {
      return tracks_[static_cast<size_t>(number)].phase == TrackPhase::kLost;
    });
    Match(scratch.confirmed, scratch.low, params_.second_match_threshold, false, scratch);
    Match(scratch.unconfirmed, scratch.high, params_.unconfirmed_match_threshold,
          params_.fuse_score, scratch);
    EndTracks(scratch);
    const TrackPhase phase = frame_ == 1 ? TrackPhase::kTracked : TrackPhase::kUnconfirmed;
    StartTracks(scratch.high, [&](const Detection& first) {
      return Track{next_id_++, phase, false, first.class_id, 0.0, 0.0, AspectMotion(first.corners),
                   first.index};
    });
    DropDuplicates(scratch);
  }

  // Tracks that are lost for too long end with the next frame, in which they may come back, as in
  // ultralytics.
  void AgeLostTracks() {
    for (Track& track : tracks_) {
      if (track.phase != TrackPhase::kLost) continue;
      if (track.is_overdue) track.id = kNoTrack;
      track.is_overdue = IsTooLong(track.missed);
    }
  }

  // Tracks that no second frame has confirmed end; the others that were missed are lost now.
  void EndTracks(const Scratch& scratch) {
    AgeLostTracks();
    for (const int32_t number : scratch.confirmed) {
      Track& track = tracks_[static_cast<size_t>(number)];
      track.phase = TrackPhase::kLost;
      if (track.is_overdue) track.id = kNoTrack;
    }
    for (const int32_t number : scratch.unconfirmed) {
      tracks_[static_cast<size_t>(number)].id = kNoTrack;
    }
    RemoveEnded();
  }

  void DropDuplicates(Scratch& scratch) {
    scratch.lost.clear();
    for (size_t i = 0; i < tracks_.size(); ++i) {
      if (tracks_[i].phase == TrackPhase::kLost) {
        scratch.lost.emplace_back(i, tracks_[i].motion.box());
      }
    }
    if (scratch.lost.empty()) return;
    // All pairs are looked at before any track ends: what is dropped does not depend on the order.
    for (Track& track : tracks_) {
      if (track.phase == TrackPhase::kLost) continue;
      const Corners corners = track.motion.box();
      for (const auto& [number, other] : scratch.lost) {
        if (!(Iou(corners, other) > params_.duplicate_iou)) continue;
        (track.seen > tracks_[number].seen ? tracks_[number] : track).id = kNoTrack;
      }
    }
    RemoveEnded();
  }

  void RemoveEnded() {
    std::erase_if(tracks_, [](const Track& track) { return track.id == kNoTrack; });
  }
};

}  // namespace

std::unique_ptr<TrackingMethodState> MakeByteTrack(const TrackingParams& params) {
  return std::make_unique<ByteTrack>(params);
}

}  // namespace endcap
