#pragma once

#include <algorithm>
#include <array>
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
  virtual std::string Save() const = 0;
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
// has `id` (kNoTrack: none yet), `motion`, Move(CameraMotion), Write(StateWriter&) and
// Track::Read(StateReader&).
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

  std::string Save() const override {
    StateWriter writer;
    writer.Add(timestamp_ ? mark_ | kTimedMark : mark_);
    writer.Add(frame_);
    writer.Add(next_id_);
    writer.Add(uint64_t{tracks_.size()});
    if (timestamp_) writer.Add(*timestamp_);
    WriteMore(writer);
    for (const Track& track : tracks_) track.Write(writer);
    return writer.Take();
  }

  void Restore(std::string_view bytes) override {
    StateReader reader(bytes);
    const uint64_t mark = reader.Take();
    if ((mark & ~kTimedMark) != mark_) FailState("does not begin as one of this preset");
    frame_ = reader.TakeInteger(0, kMaxSavedFrames);
    next_id_ = reader.TakeInteger(1, kMaxSavedIds);
    const uint64_t count = reader.Take();
    if (count > static_cast<uint64_t>(params_.max_tracks)) {
      FailArgument("the state of a tracker has ", count, " tracks: max_tracks is ",
                   params_.max_tracks);
    }
    if (mark != mark_) timestamp_ = reader.TakeNumber();
    ReadMore(reader);
    std::unordered_set<int64_t> ids;
    for (uint64_t i = 0; i < count; ++i) {
      const Track& track = tracks_.emplace_back(Track::Read(reader));
      if (track.id == kNoTrack) continue;
      if (track.id < 1 || track.id >= next_id_) FailState("has an id that was not given");
      if (!ids.insert(track.id).second) FailState("has an id twice");
    }
    if (!reader.at_end()) FailState("has another length than its tracks take");
  }

 protected:
  // The next frame, which is `step_` after the one before.
  virtual void UpdateTracks(std::span<const Detection> detections,
                            std::span<int64_t> track_ids) = 0;
  // The same without a look at it: moves tracks on, and ends those that are lost too long.
  virtual void SkipFrame() = 0;
  virtual void WriteMore(StateWriter& /*writer*/) const {}
  virtual void ReadMore(StateReader& /*reader*/) {}

  bool is_full() const { return tracks_.size() >= static_cast<size_t>(params_.max_tracks); }
  // Time stamps are not exact: half a frame more is not too long.
  bool IsTooLong(double frames) const { return frames > params_.max_lost_frames + 0.5; }

  const TrackingParams& params_;
  std::vector<Track> tracks_;
  int64_t frame_ = 0;  // frames until now, this one included
  int64_t next_id_ = 1;
  double step_ = 1.0;  // frames of params_.frame_rate from a step to the next

 private:
  static constexpr uint64_t kTimedMark = uint64_t{0x20} << 56U;  // the mark's last letter is small

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

// Filters of boxes as numbers of a saved state.
template <size_t kCount>
void WriteNumbers(StateWriter& writer, const std::array<MovingNumber, kCount>& numbers) {
  for (const MovingNumber& n : numbers) {
    for (const double part :
         {n.value, n.velocity, n.value_variance, n.covariance, n.velocity_variance}) {
      writer.Add(part);
    }
  }
}

template <size_t kCount>
std::array<MovingNumber, kCount> ReadNumbers(StateReader& reader) {
  std::array<MovingNumber, kCount> numbers;
  for (MovingNumber& n : numbers) {
    n.value = reader.TakeNumber();
    n.velocity = reader.TakeNumber();
    n.value_variance = reader.TakeVariance();
    n.covariance = reader.TakeNumber();
    n.velocity_variance = reader.TakeVariance();
  }
  return numbers;
}

}  // namespace endcap
