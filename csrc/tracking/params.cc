#include <algorithm>
#include <array>

#include "common/fail.h"
#include "common/param_table.h"
#include "endcap/tracking.h"

namespace endcap {
namespace {

using Params = TrackingParams;

using namespace std::string_view_literals;

constexpr int kMaxFrames = 1000000;
constexpr int kMaxTracks = 5000;

// NOLINTNEXTLINE(bugprone-macro-parentheses): a member's name cannot stand in parentheses
#define FIELD(expression) [](auto& p) -> auto& { return p.expression; }
const ParamTable<Params>& Table() {
  static const ParamTable<Params> table = {
      Means("least score of the detections that are matched first",
            NumberField<Params>("high_score_threshold", 0.0, 1.0, FIELD(high_score_threshold))),
      Means("detections with scores above it and below high_score_threshold are matched with the "
            "tracks that remain",
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
            IntegerField<Params>("max_lost_frames", 0, kMaxFrames, FIELD(max_lost_frames))),
      Means("frames of a second, for frames with time stamps",
            NumberField<Params>("frame_rate", 1e-6, 1000.0, FIELD(frame_rate))),
      Means("where a track and a lost one overlap more, the younger one is dropped",
            NumberField<Params>("duplicate_iou", 0.0, 1.0, FIELD(duplicate_iou))),
      Means("tracks at a time, lost ones included; no more are started",
            IntegerField<Params>("max_tracks", 1, kMaxTracks, FIELD(max_tracks))),
      Means("frames in a row with a detection that give a track its id",
            IntegerField<Params>("confirm_frames", 1, kMaxFrames, FIELD(confirm_frames))),
      Means("what the direction of motion counts in the first stage, beside IoU",
            NumberField<Params>("direction_weight", 0.0, 1.0, FIELD(direction_weight))),
      Means("frames over which directions of motion are taken",
            IntegerField<Params>("direction_frames", 1, kMaxDirectionFrames,
                                 FIELD(direction_frames))),
  };
  return table;
}
#undef FIELD

// By method: names that follow the newest version of their library, then those of one version.
constexpr size_t kMethods = 3;
constexpr std::array kPresets = {"bytetrack"sv,
                                 "bytetrack_trackers"sv,
                                 "ocsort"sv,
                                 "bytetrack_ultralytics_8.4"sv,
                                 "bytetrack_trackers_2.6"sv,
                                 "ocsort_trackers_2.6"sv};

struct Restricted {
  std::string_view name;
  std::array<bool, kMethods> methods;  // in the order of TrackingMethod
};
// Parameters that not all methods have.
constexpr std::array kRestricted = {
    Restricted{"low_score_threshold"sv, {true, true, false}},
    Restricted{"unconfirmed_match_threshold"sv, {true, false, false}},
    Restricted{"fuse_score"sv, {true, false, false}},
    Restricted{"duplicate_iou"sv, {true, false, false}},
    Restricted{"confirm_frames"sv, {false, true, true}},
    Restricted{"direction_weight"sv, {false, false, true}},
    Restricted{"direction_frames"sv, {false, false, true}},
};

bool Applies(std::string_view name, TrackingMethod method) {
  const auto found = std::ranges::find(kRestricted, name, &Restricted::name);
  return found == kRestricted.end() || found->methods[static_cast<size_t>(method)];
}

}  // namespace

TrackingParams ParseTrackingParams(const ParameterList& list) {
  TrackingParams params;
  for (const auto& [name, text] : list) {
    if (name == "preset") params = TrackingPreset(text);
  }
  for (const auto& [name, text] : list) {
    if (name == "preset") continue;
    SetParam(Table(), "tracking", params, name, text, "preset");
    if (!Applies(name, params.method)) {
      FailArgument(name, " has no meaning with the preset ",
                   kPresets[static_cast<size_t>(params.method)], ": leave it out");
    }
  }
  Validate(params);
  return params;
}

std::vector<ParameterInfo> DescribeTrackingParams(const TrackingParams& params) {
  std::vector<ParameterInfo> infos = DescribeParams(Table(), params);
  std::erase_if(infos,
                [&](const ParameterInfo& info) { return !Applies(info.name, params.method); });
  return infos;
}

std::vector<ParameterInfo> DescribeAllTrackingParams() { return DescribeParams(Table(), Params{}); }

TrackingParams TrackingPreset(std::string_view name) {
  TrackingParams params;
  const size_t index = ReadEnumIndex("preset", name, std::span(kPresets));
  params.method = static_cast<TrackingMethod>(index % kMethods);
  if (params.method == TrackingMethod::kByteTrack) return params;
  const bool is_oc_sort = params.method == TrackingMethod::kOcSort;
  params.high_score_threshold = 0.6;
  params.low_score_threshold = 0.0;
  params.new_track_threshold = is_oc_sort ? 0.0 : 0.7;
  params.match_threshold = is_oc_sort ? 0.7 : 0.9;
  params.second_match_threshold = params.match_threshold;
  params.confirm_frames = is_oc_sort ? 3 : 2;
  return params;
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
