#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "common/score_order.h"
#include "endcap/tracking.h"
#include "tracking/assignment.h"
#include "tracking/method.h"

// ByteTrack (arXiv 2110.06864), with the phases and ids of Ultralytics' tracker.

namespace endcap {
namespace {

constexpr uint64_t kMark = 0x314B'4341'5254'4345;  // "ECTRACK1"

enum class TrackPhase : uint8_t { kUnconfirmed, kTracked, kLost };
constexpr uint64_t kPhases = 3;

struct Track {
  int64_t id;
  TrackPhase phase;
  bool is_overdue;  // was lost for too long: ends as soon as it is lost again, or still
  int32_t class_id;
  int64_t first_frame;
  int64_t last_frame;  // with a detection
  AspectMotion motion;

  void Write(StateWriter& writer) const {
    writer.Add(id);
    writer.Add(static_cast<uint64_t>(phase) + (is_overdue ? kPhases : 0U));
    writer.Add(int64_t{class_id});
    writer.Add(first_frame);
    writer.Add(last_frame);
    WriteNumbers(writer, motion.numbers());
  }

  static Track Read(StateReader& reader, int64_t frame) {
    Track track = {};
    track.id = reader.TakeInteger(1, kMostSavedIds);
    const auto phase = static_cast<uint64_t>(reader.TakeInteger(0, 2 * kPhases - 1));
    track.phase = static_cast<TrackPhase>(phase % kPhases);
    track.is_overdue = phase >= kPhases;
    track.class_id = static_cast<int32_t>(reader.TakeInteger(INT32_MIN, INT32_MAX));
    track.first_frame = reader.TakeInteger(1, frame);
    track.last_frame = reader.TakeInteger(track.first_frame, frame);
    track.motion = AspectMotion(ReadNumbers<4>(reader));
    return track;
  }
};

// What a stage of the association asks for.
struct Stage {
  double most_cost;
  bool fuse_score;
};

// Memory that a thread keeps from frame to frame.
struct Scratch {
  std::vector<Detection> high, low;
  std::vector<int32_t> confirmed, unconfirmed;  // numbers of tracks
  std::vector<int32_t> seen;                    // of each track, this frame's detection; -1: none
  std::vector<Edge> edges;
  std::vector<std::pair<size_t, Corners>> lost;
  std::vector<uint8_t> doomed;
  Overlaps overlaps;
  Assignment assignment;

  void Trim() {
    TrimScratch(edges);
    assignment.Trim();
  }
};

class ByteTrack final : public TrackList<Track> {
 public:
  explicit ByteTrack(const TrackingParams& params) : TrackList(params, kMark) {}

  void Update(std::span<const Detection> detections, std::span<int64_t> track_ids) override {
    thread_local Scratch scratch;
    const TrimOnExit trim(scratch);
    ++frame_;
    Split(detections, scratch);
    Step(scratch);
    for (size_t i = 0; i < tracks_.size(); ++i) {
      const int32_t detection = scratch.seen[i];
      if (detection < 0 || tracks_[i].phase != TrackPhase::kTracked) continue;
      track_ids[static_cast<size_t>(detection)] = tracks_[i].id;
    }
  }

 private:
  void SkipFrame(int64_t frame) override {
    for (Track& track : tracks_) {
      if (track.phase == TrackPhase::kLost) track.motion.StopHeight();
      track.motion.Predict();
    }
    AgeLostTracks(frame);
    std::erase_if(tracks_, [](const Track& track) { return track.id == kNoTrack; });
  }

  void Split(std::span<const Detection> detections, Scratch& scratch) const {
    scratch.high.clear();
    scratch.low.clear();
    for (const Detection& detection : detections) {
      if (detection.score >= params_.high_score_threshold) {
        scratch.high.push_back(detection);
      } else if (detection.score > params_.low_score_threshold) {
        scratch.low.push_back(detection);
      }
    }
  }

  // Matches the tracks whose number is in `wanted` with the detections, and takes the matches into
  // the tracks. The numbers and the detections that remain stay in the lists, in their order.
  void Associate(std::vector<int32_t>& wanted, std::vector<Detection>& detections,
                 const Stage& stage, Scratch& scratch) {
    FindEdges(wanted, detections, stage, scratch);
    if (scratch.edges.empty()) return;
    for (const Edge& edge :
         scratch.assignment.Solve(scratch.edges, wanted.size(), detections.size())) {
      int32_t& number = wanted[static_cast<size_t>(edge.row)];
      Detection& detection = detections[static_cast<size_t>(edge.column)];
      Track& track = tracks_[static_cast<size_t>(number)];
      track.motion.Correct(detection.corners);
      track.phase = TrackPhase::kTracked;
      track.class_id = detection.class_id;
      track.last_frame = frame_;
      scratch.seen[static_cast<size_t>(number)] = detection.index;
      number = -1;
      detection.index = -1;
    }
    std::erase(wanted, -1);
    std::erase_if(detections, [](const Detection& each) { return each.index < 0; });
  }

  // Pairs that overlap enough.
  void FindEdges(std::span<const int32_t> wanted, std::span<const Detection> detections,
                 const Stage& stage, Scratch& scratch) const {
    scratch.edges.clear();
    scratch.overlaps.SetDetections(detections);
    for (size_t row = 0; row < wanted.size(); ++row) {
      const Track& track = tracks_[static_cast<size_t>(wanted[row])];
      scratch.overlaps.Find(track.motion.box(), [&](int32_t column, double iou) {
        const Detection& detection = detections[static_cast<size_t>(column)];
        if (!params_.class_agnostic && detection.class_id != track.class_id) return;
        const double cost = 1.0 - (stage.fuse_score ? iou * detection.score : iou);
        const double gain = stage.most_cost - cost;
        if (gain > 0.0) scratch.edges.push_back({static_cast<int32_t>(row), column, gain});
      });
    }
  }

  void Step(Scratch& scratch) {
    scratch.confirmed.clear();
    scratch.unconfirmed.clear();
    for (size_t i = 0; i < tracks_.size(); ++i) {
      Track& track = tracks_[i];
      if (track.phase == TrackPhase::kUnconfirmed) {
        scratch.unconfirmed.push_back(static_cast<int32_t>(i));
        continue;
      }
      if (track.phase == TrackPhase::kLost) track.motion.StopHeight();
      track.motion.Predict();
      scratch.confirmed.push_back(static_cast<int32_t>(i));
    }
    scratch.seen.assign(tracks_.size(), -1);
    Associate(scratch.confirmed, scratch.high, {params_.match_threshold, params_.fuse_score},
              scratch);
    // Lost tracks come back by high scores only.
    std::erase_if(scratch.confirmed, [&](int32_t number) {
      return tracks_[static_cast<size_t>(number)].phase == TrackPhase::kLost;
    });
    Associate(scratch.confirmed, scratch.low, {params_.second_match_threshold, false}, scratch);
    Associate(scratch.unconfirmed, scratch.high,
              {params_.unconfirmed_match_threshold, params_.fuse_score}, scratch);
    EndTracks(scratch);
    StartTracks(scratch);
    DropDuplicates(scratch);
  }

  // Tracks that are lost for too long end with the next frame, in which they may come back, as in
  // ultralytics.
  void AgeLostTracks(int64_t frame) {
    for (Track& track : tracks_) {
      if (track.phase != TrackPhase::kLost) continue;
      if (track.is_overdue) track.id = kNoTrack;
      track.is_overdue = frame - track.last_frame > params_.max_lost_frames;
    }
  }

  // Tracks that no second frame has confirmed end; the others that were missed are lost now.
  void EndTracks(Scratch& scratch) {
    AgeLostTracks(frame_);
    for (const int32_t number : scratch.confirmed) {
      Track& track = tracks_[static_cast<size_t>(number)];
      track.phase = TrackPhase::kLost;
      if (track.is_overdue) track.id = kNoTrack;
    }
    for (const int32_t number : scratch.unconfirmed) {
      tracks_[static_cast<size_t>(number)].id = kNoTrack;
    }
    RemoveEnded(scratch);
  }

  void StartTracks(Scratch& scratch) {
    for (const Detection& detection : scratch.high) {
      if (detection.score < params_.new_track_threshold) continue;
      if (is_full()) break;
      const TrackPhase phase = frame_ == 1 ? TrackPhase::kTracked : TrackPhase::kUnconfirmed;
      tracks_.push_back({next_id_++, phase, false, detection.class_id, frame_, frame_,
                         AspectMotion(detection.corners)});
      scratch.seen.push_back(detection.index);
    }
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
    scratch.doomed.assign(tracks_.size(), 0);
    for (size_t i = 0; i < tracks_.size(); ++i) {
      if (tracks_[i].phase == TrackPhase::kLost) continue;
      const Corners corners = tracks_[i].motion.box();
      for (const auto& [number, other] : scratch.lost) {
        if (!(Iou(corners, other) > params_.duplicate_iou)) continue;
        const bool is_older = tracks_[i].last_frame - tracks_[i].first_frame >
                              tracks_[number].last_frame - tracks_[number].first_frame;
        scratch.doomed[is_older ? number : i] = 1;
      }
    }
    for (size_t i = 0; i < tracks_.size(); ++i) {
      if (scratch.doomed[i] != 0) tracks_[i].id = kNoTrack;
    }
    RemoveEnded(scratch);
  }

  void RemoveEnded(Scratch& scratch) {
    size_t kept = 0;
    for (size_t i = 0; i < tracks_.size(); ++i) {
      if (tracks_[i].id == kNoTrack) continue;
      tracks_[kept] = tracks_[i];
      scratch.seen[kept++] = scratch.seen[i];
    }
    tracks_.resize(kept);
    scratch.seen.resize(kept);
  }
};

}  // namespace

std::unique_ptr<TrackingMethodState> MakeByteTrack(const TrackingParams& params) {
  return std::make_unique<ByteTrack>(params);
}

}  // namespace endcap
