#include "common/fail.h"
#include "common/param_table.h"
#include "endcap/tracking.h"

namespace endcap {
namespace {

using Params = TrackingParams;

constexpr int kMostFrames = 1000000;
constexpr int kMostTracks = 5000;

// NOLINTNEXTLINE(bugprone-macro-parentheses): a member's name cannot stand in parentheses
#define FIELD(expression) [](auto& p) -> auto& { return p.expression; }
const ParamTable<Params>& Table() {
  static const ParamTable<Params> table = {
      Means("least score of the detections that are matched first",
            NumberField<Params>("high_score_threshold", 0.0, 1.0, FIELD(high_score_threshold))),
      Means("detections with scores above it and below high_score_threshold are matched with the "
            "tracks "
            "that remain",
            NumberField<Params>("low_score_threshold", 0.0, 1.0, FIELD(low_score_threshold))),
      Means("least score of a detection that starts a track",
            NumberField<Params>("new_track_threshold", 0.0, 1.0, FIELD(new_track_threshold))),
      Means("matches of the first stage cost less: 1 - IoU, or with fuse_score 1 - IoU * score",
            NumberField<Params>("match_threshold", 0.0, 1.0, FIELD(match_threshold))),
      Means("the same of the second stage: 1 - IoU",
            NumberField<Params>("second_match_threshold", 0.0, 1.0, FIELD(second_match_threshold))),
      Means("the same of tracks that have been seen in one frame, as of match_threshold",
            NumberField<Params>("unconfirmed_match_threshold", 0.0, 1.0,
                                FIELD(unconfirmed_match_threshold))),
      Means("a detection's score counts in its matches",
            BoolField<Params>("fuse_score", FIELD(fuse_score))),
      Means("detections may continue tracks of other classes",
            BoolField<Params>("class_agnostic", FIELD(class_agnostic))),
      Means("frames that a track without detections is kept for",
            IntegerField<Params>("max_lost_frames", 0, kMostFrames, FIELD(max_lost_frames))),
      Means("where a track and a lost one overlap more, the younger one is dropped",
            NumberField<Params>("duplicate_iou", 0.0, 1.0, FIELD(duplicate_iou))),
      Means("tracks at a time, lost ones included; no more are started",
            IntegerField<Params>("max_tracks", 1, kMostTracks, FIELD(max_tracks))),
  };
  return table;
}
#undef FIELD

}  // namespace

TrackingParams ParseTrackingParams(const ParameterList& list) {
  TrackingParams params;
  for (const auto& [name, text] : list) SetParam(Table(), "tracking", params, name, text);
  Validate(params);
  return params;
}

std::vector<ParameterInfo> DescribeTrackingParams(const TrackingParams& params) {
  return DescribeParams(Table(), params);
}

void Validate(const TrackingParams& params) {
  // What the table refuses as text, for who fills the struct.
  for (const ParamField<Params>& field : Table()) {
    Params copy;
    field.read(copy, field.write(params));
  }
  if (params.low_score_threshold > params.high_score_threshold) {
    FailArgument("low_score_threshold is ", params.low_score_threshold,
                 ": give at most high_score_threshold, ", params.high_score_threshold);
  }
}

}  // namespace endcap
