#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "endcap/params.h"

namespace endcap {

// How detections continue tracks. All have a constant-velocity Kalman filter for each track, and
// optimal assignment by IoU in two stages.
enum class TrackingMethod : int32_t {
  // ByteTrack (arXiv 2110.06864): detections with high scores first, then those with low ones. With
  // the ids of ultralytics.
  kByteTrack,
  // The same with a filter of the box's sides, and the ids of Roboflow's trackers.
  kSideByteTrack,
  // OC-SORT (arXiv 2203.14360): detections with high scores alone, by predicted boxes and the
  // direction of motion, then by the boxes that were seen last. With the ids of Roboflow's
  // trackers.
  kOcSort,
};

// Defaults are those of the preset bytetrack.
struct TrackingParams {
  TrackingMethod method = TrackingMethod::kByteTrack;
  double high_score_threshold = 0.25;  // detections of at least this score are matched first
  double low_score_threshold = 0.1;    // those between are matched with the tracks that remain
  double new_track_threshold = 0.25;   // least score of a detection that starts a track
  // A match costs 1 - IoU, and less than this (at most, but in kByteTrack): in the first stage,
  // where fuse_score multiplies the IoU by the detection's score; in the second; and for tracks of
  // one frame.
  double match_threshold = 0.8;
  double second_match_threshold = 0.5;
  double unconfirmed_match_threshold = 0.7;
  bool fuse_score = true;
  bool class_agnostic = true;   // detections may continue tracks of other classes
  int max_lost_frames = 30;     // frames that a track without detections is kept for
  double frame_rate = 30.0;     // frames of a second, for time stamps
  double duplicate_iou = 0.85;  // above it, the younger one of a track and a lost one is dropped
  int max_tracks = 1000;        // no more are started; lost ones count
  // Of the other methods: frames in a row that confirm a track.
  int confirm_frames = 2;
  // Of kOcSort: what a change of direction counts beside IoU, and over how many frames directions
  // are taken, up to kMaxDirectionFrames.
  double direction_weight = 0.2;
  int direction_frames = 3;
};

inline constexpr int kMaxDirectionFrames = 30;

// bytetrack, bytetrack_ultralytics_8.4: TrackingParams{}. bytetrack_trackers, ocsort,
// bytetrack_trackers_2.6, ocsort_trackers_2.6: the defaults of Roboflow's trackers 2.6.1.
TrackingParams TrackingPreset(std::string_view name);  // throws kInvalidArgument

// `preset`, and parameters that have a meaning in its method. Throws kInvalidArgument for another
// name or an impossible value.
TrackingParams ParseTrackingParams(const ParameterList& list);

// The parameters of the method: name, allowed values, and the value in `params`.
std::vector<ParameterInfo> DescribeTrackingParams(const TrackingParams& params);

// The parameters of all methods together.
std::vector<ParameterInfo> DescribeAllTrackingParams();

// Throws kInvalidArgument when `params` cannot be carried out.
void Validate(const TrackingParams& params);

inline constexpr int64_t kNoTrack = -1;

// What is known of a frame in addition to its detections.
struct FrameInfo {
  // Seconds, from any start. Two frames with time stamps are that time multiplied by frame_rate
  // apart; others follow each other. That is rounded to a number of equal steps, at least one, and
  // all but the last are skipped.
  std::optional<double> timestamp;
  // [2][3]: maps points of the previous frame to this one, by a rotation, a scale and a shift. Of
  // other matrices the determinant is the square of the scale.
  std::array<double, 6> camera_motion = {1.0, 0.0, 0.0, 0.0, 1.0, 0.0};
};

// The tracks of one sequence of frames, which come in their order. Not thread-safe; sequences share
// nothing.
class Tracker {
 public:
  explicit Tracker(const TrackingParams& params);  // throws as Validate
  ~Tracker();
  Tracker(Tracker&&) noexcept;
  Tracker& operator=(Tracker&&) noexcept;

  // Takes the detections of the next frame, of which there may be none.
  //   boxes_xyxy [N][4], scores [N], class_ids [N] (or empty: one class); track_ids [N] is written:
  //   from 1, or kNoTrack for a detection that belongs to no track, or to one that later frames
  //   have still to confirm (with kByteTrack, tracks of a sequence's first frame need none).
  // Boxes without an area belong to no track. Throws kInvalidArgument for lengths that differ, more
  // than kMaxDetections, a box or a score that is not finite, a box beyond kFarthest pixels, a time
  // stamp that is not finite or not after the one before, or a camera's motion that is not finite,
  // mirrors or has no inverse; the tracks are then as before.
  void Update(std::span<const float> boxes_xyxy, std::span<const float> scores,
              std::span<const int32_t> class_ids, std::span<int64_t> track_ids,
              const FrameInfo& info = {});

  // The next `frames` of the sequence were not looked at, as those that a live source dropped.
  // Tracks move on by their speed, and lost ones age. A track that was in the last frame looked at
  // does not become lost by it, nor does one end that waits to be confirmed. All end where more
  // frames than max_lost_frames are skipped. The next frame follows them, whatever its time stamp.
  // Nothing happens before the first Update. Throws kInvalidArgument for a negative number.
  void Skip(int64_t frames);

  // Forgets all tracks; ids begin at 1 again.
  void Reset();

  // The tracks as bytes, the same on every machine, and back: the next Update gives what it would
  // have given here. The parameters are not part of them. Restore throws kInvalidArgument for bytes
  // that are no such state, one of another method, or of more than max_tracks, and leaves the
  // tracks as they were.
  std::string Save() const;
  void Restore(std::string_view state);

  int64_t frames() const noexcept;      // since the beginning or Reset, skipped ones included
  size_t track_count() const noexcept;  // lost and unconfirmed ones included
  const TrackingParams& params() const noexcept;

  static constexpr size_t kMaxDetections = 2000;
  static constexpr float kFarthest = 1e7F;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace endcap
