#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "common/fail.h"
#include "endcap/tracking.h"
#include "tracking/assignment.h"
#include "tracking/detection.h"
#include "tracking/motion.h"
#include "tracking/saved_state.h"

namespace endcap {

// The tracks of one sequence, and how detections continue them.
class TrackingMethodState {
 public:
  virtual ~TrackingMethodState() = default;

  // The next frame: `track_ids` has kNoTrack for each of the caller's detections, and gets the ids.
  virtual void Update(std::span<const Detection> detections, std::span<int64_t> track_ids,
                      const FrameInfo& info) = 0;
  // As Tracker::Skip, of at least 0 frames.
  virtual void Skip(int64_t frames) = 0;
  virtual int64_t frames() const noexcept = 0;
  virtual size_t track_count() const noexcept = 0;
  virtual std::string Save() = 0;
  // For a state that has seen no frame. Throws kInvalidArgument, and is then of no use.
  virtual void Restore(std::string_view bytes) = 0;
};

// Implemented by byte_track.cc, side_byte_track.cc and oc_sort.cc. `params` outlives the result.
std::unique_ptr<TrackingMethodState> MakeByteTrack(const TrackingParams& params);
std::unique_ptr<TrackingMethodState> MakeSideByteTrack(const TrackingParams& params);
std::unique_ptr<TrackingMethodState> MakeOcSort(const TrackingParams& params);

inline constexpr int64_t kMaxSavedFrames = int64_t{1} << 40;
inline constexpr int64_t kMaxSavedIds = int64_t{1} << 60;

// Memory of an association that a thread keeps from frame to frame.
struct MatchScratch {
  std::vector<Edge> edges;
  Overlaps overlaps;
  Assignment assignment;

  void Trim() {
    TrimScratch(edges);
    assignment.Trim();
  }
};

// What methods share: the list of tracks in the order in which they began, and its bytes. A Track
// has `id` (kNoTrack: none yet), `class_id`, `motion`, Move(CameraMotion) and Visit(state), see
// saved_state.h.
template <typename Track>
class TrackList : public TrackingMethodState {
 public:
  // mark: the first 8 bytes of saved tracks of the method.
  TrackList(const TrackingParams& params, uint64_t mark) : params_(params), mark_(mark) {}

  void Update(std::span<const Detection> detections, std::span<int64_t> track_ids,
              const FrameInfo& info) final {
    const double elapsed = FramesUntil(info.timestamp);
    const CameraMotion camera(info.camera_motion);
    if (!camera.IsValid()) {
      FailArgument(
          "camera_motion is not finite, mirrors, or has no inverse: give the matrix of a "
          "rotation, a scale and a shift");
    }
    timestamp_ = info.timestamp;
    const int64_t steps = std::max<int64_t>(std::llround(elapsed), 1);
    step_ = elapsed / static_cast<double>(steps);
    SkipSteps(steps - 1);
    if (info.camera_motion != FrameInfo{}.camera_motion) MoveTracks(camera);
    ++frame_;
    UpdateTracks(detections, track_ids);
  }

  void Skip(int64_t frames) final {
    if (frame_ == 0) return;
    timestamp_.reset();
    step_ = 1.0;
    SkipSteps(frames);
    frame_ += std::min(frames, kMaxSavedFrames);
  }

  int64_t frames() const noexcept override { return frame_; }
  size_t track_count() const noexcept override { return tracks_.size(); }

  std::string Save() override {
    SavedState state;
    Visit(state);
    return state.bytes();
  }

  void Restore(std::string_view bytes) override {
    SavedState state(bytes);
    Visit(state);
    if (!state.at_end()) FailState("has another length than its tracks take");
    std::unordered_set<int64_t> ids;
    for (const Track& track : tracks_) {
      if (track.id == kNoTrack) continue;
      if (track.id < 1 || track.id >= next_id_) FailState("has an id that was not given");
      if (!ids.insert(track.id).second) FailState("has an id twice");
    }
  }

 protected:
  // The next frame, which is `step_` after the one before.
  virtual void UpdateTracks(std::span<const Detection> detections,
                            std::span<int64_t> track_ids) = 0;
  // The same without a look at it: moves tracks on, and ends those that are lost too long.
  virtual void SkipFrame() = 0;
  // A number of frames that the method saves in addition; null: none.
  virtual int64_t* SavedNumber() { return nullptr; }

  // Matches the tracks whose numbers are in `wanted` with detections that overlap box(track):
  // gain(detection, iou) is what a pair gains, if it is above 0. Matches are taken in as by
  // TakeMatches.
  template <typename Box, typename Gain, typename Take>
  void Associate(std::vector<int32_t>& wanted, std::vector<Detection>& detections,
                 MatchScratch& scratch, const Box& box, const Gain& gain, const Take& take) {
    scratch.edges.clear();
    scratch.overlaps.SetDetections(detections);
    for (size_t row = 0; row < wanted.size(); ++row) {
      const Track& track = tracks_[static_cast<size_t>(wanted[row])];
      scratch.overlaps.Find(box(track), [&](int32_t column, double iou) {
        const Detection& detection = detections[static_cast<size_t>(column)];
        if (!MayMatch(track, detection)) return;
        const double gained = gain(detection, iou);
        if (gained > 0.0) scratch.edges.push_back({static_cast<int32_t>(row), column, gained});
      });
    }
    if (scratch.edges.empty()) return;
    TakeMatches(scratch.assignment.Solve(scratch.edges, wanted.size(), detections.size()), wanted,
                detections, take);
  }

  // Calls take(track, detection, gain) for each match. Where it returns true, both leave the lists;
  // what remains stays in its order.
  template <typename Take>
  void TakeMatches(std::span<const Edge> matches, std::vector<int32_t>& wanted,
                   std::vector<Detection>& detections, const Take& take) {
    for (const Edge& match : matches) {
      int32_t& number = wanted[static_cast<size_t>(match.row)];
      Detection& detection = detections[static_cast<size_t>(match.column)];
      if (!take(tracks_[static_cast<size_t>(number)], detection, match.gain)) continue;
      number = -1;
      detection.index = -1;
    }
    std::erase(wanted, -1);
    std::erase_if(detections, [](const Detection& each) { return each.index < 0; });
  }

  // Adds make(detection) for each detection that is good enough, while there is room.
  template <typename Make>
  void StartTracks(std::span<const Detection> detections, const Make& make) {
    for (const Detection& detection : detections) {
      if (detection.score < params_.new_track_threshold) continue;
      if (tracks_.size() >= static_cast<size_t>(params_.max_tracks)) break;
      tracks_.push_back(make(detection));
    }
  }

  bool MayMatch(const Track& track, const Detection& detection) const {
    return params_.class_agnostic || track.class_id == detection.class_id;
  }
  // Time stamps are not exact: half a frame more is not too long.
  bool IsTooLong(double frames) const { return frames > params_.max_lost_frames + 0.5; }

  const TrackingParams& params_;
  std::vector<Track> tracks_;
  int64_t frame_ = 0;  // frames until now, this one included
  int64_t next_id_ = 1;
  double step_ = 1.0;  // frames of params_.frame_rate from a step to the next

 private:
  static constexpr uint64_t kTimedMark = uint64_t{0x20} << 56U;  // the mark's last letter is small

  void Visit(SavedState& state) {
    uint64_t mark = timestamp_ ? mark_ | kTimedMark : mark_;
    state.Bits(mark);
    if ((mark & ~kTimedMark) != mark_) FailState("does not begin as one of this preset");
    state.Integer(frame_, 0, kMaxSavedFrames);
    state.Integer(next_id_, 1, kMaxSavedIds);
    uint64_t count = tracks_.size();
    state.Bits(count);
    if (count > static_cast<uint64_t>(params_.max_tracks)) {
      FailArgument("the state of a tracker has ", count, " tracks: max_tracks is ",
                   params_.max_tracks);
    }
    tracks_.resize(count);
    if (mark != mark_) {
      if (!timestamp_) timestamp_.emplace();
      state.Number(*timestamp_);
    }
    if (int64_t* number = SavedNumber()) state.Integer(*number, 0, frame_);
    for (Track& track : tracks_) track.Visit(state);
  }

  double FramesUntil(std::optional<double> timestamp) const {
    if (!timestamp) return 1.0;
    const double last = timestamp_.value_or(-kMaxNumber);
    if (!(*timestamp > last && *timestamp < kMaxNumber)) {
      FailArgument("timestamp is ", *timestamp,
                   ": give finite seconds, after those of the previous frame");
    }
    return timestamp_ ? std::min((*timestamp - last) * params_.frame_rate, 0x1p40) : 1.0;
  }

  void SkipSteps(int64_t count) {
    if (count > params_.max_lost_frames) tracks_.clear();
    for (int64_t i = 0; i < count && !tracks_.empty(); ++i) SkipFrame();
  }

  // Tracks that go too far end.
  void MoveTracks(const CameraMotion& camera) {
    for (Track& track : tracks_) track.Move(camera);
    std::erase_if(tracks_, [](const Track& track) {
      const auto [x1, y1, x2, y2] = track.motion.box();
      return !(std::abs(x1) + std::abs(y1) + std::abs(x2) + std::abs(y2) < Tracker::kFarthest);
    });
  }

  uint64_t mark_;
  std::optional<double> timestamp_;  // of the last frame
};

}  // namespace endcap
