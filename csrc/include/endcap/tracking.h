#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "endcap/params.h"

namespace endcap {

// ByteTrack (arXiv 2110.06864): a constant-velocity Kalman filter for each track, and association
// by IoU in two stages, detections with high scores first. Defaults are those of ultralytics.
struct TrackingParams {
  double high_score_threshold = 0.25;  // detections of at least this score are matched first
  double low_score_threshold = 0.1;    // those between are matched with the tracks that remain
  double new_track_threshold = 0.25;   // least score of a detection that starts a track
  // A match costs 1 - IoU, and less than this: in the first stage, where fuse_score multiplies the
  // IoU by the detection's score; in the second; and for tracks of one frame.
  double match_threshold = 0.8;
  double second_match_threshold = 0.5;
  double unconfirmed_match_threshold = 0.7;
  bool fuse_score = true;
  bool class_agnostic = true;   // detections may continue tracks of other classes
  int max_lost_frames = 30;     // frames that a track without detections is kept for
  double duplicate_iou = 0.85;  // above it, the younger one of a track and a lost one is dropped
  int max_tracks = 1000;        // no more are started; lost ones count
};

// Throws kInvalidArgument for an unknown name or an impossible value.
TrackingParams ParseTrackingParams(const ParameterList& list);

// The table: name, allowed values, and the value in `params`.
std::vector<ParameterInfo> DescribeTrackingParams(const TrackingParams& params);

// Throws kInvalidArgument when `params` cannot be carried out.
void Validate(const TrackingParams& params);

inline constexpr int64_t kNoTrack = -1;

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
  //   from 1, or kNoTrack for a detection that belongs to no track, or to one that a second frame
  //   has still to confirm (in the first frame of a sequence, tracks need no second one).
  // Boxes without an area belong to no track. Throws kInvalidArgument for lengths that differ, more
  // than kMaxDetections, a box or a score that is not finite, or a box beyond kFarthest pixels; the
  // tracks are then as before.
  void Update(std::span<const float> boxes_xyxy, std::span<const float> scores,
              std::span<const int32_t> class_ids, std::span<int64_t> track_ids);

  // Forgets all tracks; ids begin at 1 again.
  void Reset() noexcept;

  // The tracks as bytes, the same on every machine, and back: the next Update gives what it would
  // have given here. The parameters are not part of them. Restore throws kInvalidArgument for bytes
  // that are no such state, or one of more than max_tracks, and leaves the tracks as they were.
  std::string Save() const;
  void Restore(std::string_view state);

  int64_t frames() const noexcept;      // since the beginning or Reset
  size_t track_count() const noexcept;  // lost and unconfirmed ones included
  const TrackingParams& params() const noexcept;

  static constexpr size_t kMaxDetections = 2000;
  static constexpr float kFarthest = 1e7F;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace endcap
