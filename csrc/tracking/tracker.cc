#include <algorithm>
#include <cmath>
#include <utility>

#include "common/fail.h"
#include "common/score_order.h"
#include "endcap/tracking.h"
#include "tracking/assignment.h"
#include "tracking/track.h"

namespace endcap {
namespace {

struct Corners {
  double x1, y1, x2, y2;

  double area() const { return (x2 - x1) * (y2 - y1); }
};

double Iou(const Corners& a, const Corners& b) {
  const double width = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  const double height = std::min(a.y2, b.y2) - std::max(a.y1, b.y1);
  if (!(width > 0.0) || !(height > 0.0)) return 0.0;
  const double common = width * height;
  return common / (a.area() + b.area() - common);
}

Corners ToCorners(const BoxState& box) {
  const double half_width = box.aspect * box.height / 2.0;
  const double half_height = box.height / 2.0;
  return {box.cx - half_width, box.cy - half_height, box.cx + half_width, box.cy + half_height};
}

struct Detection {
  Corners corners;
  double score;
  int32_t class_id;
  int32_t index;  // in the caller's arrays

  BoxState ToState() const {
    const double width = corners.x2 - corners.x1;
    const double height = corners.y2 - corners.y1;
    return {corners.x1 + width / 2.0, corners.y1 + height / 2.0, width / height, height};
  }
};

// What a stage of the association asks for.
struct Stage {
  double most_cost;
  bool fuse_score;
  bool class_agnostic;
};

// Memory that a thread keeps from frame to frame.
struct TrackScratch {
  std::vector<Detection> high, low;
  std::vector<int32_t> numbers, unconfirmed;
  std::vector<int32_t> seen;  // of each track, the detection of this frame; -1: none
  std::vector<std::pair<double, int32_t>> by_left;
  std::vector<Edge> edges;
  std::vector<std::pair<size_t, Corners>> lost;
  std::vector<uint8_t> doomed;
  Assignment assignment;

  void Trim() {
    TrimScratch(edges);
    assignment.Trim();
  }
};

// What happens to the tracks in one frame.
class FrameStep {
 public:
  FrameStep(const TrackingParams& params, int64_t frame, std::vector<Track>& tracks,
            int64_t& next_id, TrackScratch& scratch)
      : params_(params), frame_(frame), tracks_(tracks), next_id_(next_id), scratch_(scratch) {}

  void Run(std::span<const float> boxes, std::span<const float> scores,
           std::span<const int32_t> class_ids, std::span<int64_t> track_ids) {
    Split(boxes, scores, class_ids);
    Step();
    std::ranges::fill(track_ids, kNoTrack);
    for (size_t i = 0; i < tracks_.size(); ++i) {
      const int32_t detection = scratch_.seen[i];
      if (detection < 0 || tracks_[i].phase != TrackPhase::kTracked) continue;
      track_ids[static_cast<size_t>(detection)] = tracks_[i].id;
    }
  }

 private:
  // Detections of a frame by their score; those without an area are left out.
  void Split(std::span<const float> boxes, std::span<const float> scores,
             std::span<const int32_t> class_ids) {
    scratch_.high.clear();
    scratch_.low.clear();
    for (size_t i = 0; i < scores.size(); ++i) {
      const float* box = boxes.data() + 4 * i;
      const Detection detection = {{box[0], box[1], box[2], box[3]},
                                   scores[i],
                                   class_ids.empty() ? 0 : class_ids[i],
                                   static_cast<int32_t>(i)};
      const Corners& corners = detection.corners;
      if (!(corners.x2 > corners.x1) || !(corners.y2 > corners.y1)) continue;
      if (detection.score >= params_.high_score_threshold) {
        scratch_.high.push_back(detection);
      } else if (detection.score > params_.low_score_threshold) {
        scratch_.low.push_back(detection);
      }
    }
  }

  // Matches the tracks whose number is in `wanted` with the detections, and takes the matches into
  // the tracks. The numbers and the detections that remain stay in the lists, in their order.
  void Associate(std::vector<int32_t>& wanted, std::vector<Detection>& detections,
                 const Stage& stage) {
    FindEdges(wanted, detections, stage);
    if (scratch_.edges.empty()) return;
    for (const Edge& edge :
         scratch_.assignment.Solve(scratch_.edges, wanted.size(), detections.size())) {
      int32_t& number = wanted[static_cast<size_t>(edge.row)];
      Detection& detection = detections[static_cast<size_t>(edge.column)];
      Track& track = tracks_[static_cast<size_t>(number)];
      track.motion.Correct(detection.ToState());
      track.phase = TrackPhase::kTracked;
      track.class_id = detection.class_id;
      track.last_frame = frame_;
      scratch_.seen[static_cast<size_t>(number)] = detection.index;
      number = -1;
      detection.index = -1;
    }
    std::erase(wanted, -1);
    std::erase_if(detections, [](const Detection& each) { return each.index < 0; });
  }

  // Pairs that overlap enough. Detections are sorted by their left side, so that a track is
  // compared with those only that begin left of its right side, and not further left than the
  // widest reaches.
  void FindEdges(std::span<const int32_t> wanted, std::span<const Detection> detections,
                 const Stage& stage) {
    scratch_.edges.clear();
    scratch_.by_left.clear();
    double widest = 0.0;
    for (size_t i = 0; i < detections.size(); ++i) {
      const Corners& corners = detections[i].corners;
      scratch_.by_left.emplace_back(corners.x1, static_cast<int32_t>(i));
      widest = std::max(widest, corners.x2 - corners.x1);
    }
    std::sort(scratch_.by_left.begin(), scratch_.by_left.end());
    for (size_t row = 0; row < wanted.size(); ++row) {
      const Track& track = tracks_[static_cast<size_t>(wanted[row])];
      const Corners corners = ToCorners(track.motion.box());
      auto next = std::lower_bound(scratch_.by_left.begin(), scratch_.by_left.end(),
                                   std::pair{corners.x1 - widest, int32_t{0}});
      for (; next != scratch_.by_left.end() && next->first < corners.x2; ++next) {
        const Detection& detection = detections[static_cast<size_t>(next->second)];
        if (!stage.class_agnostic && detection.class_id != track.class_id) continue;
        const double iou = Iou(corners, detection.corners);
        const double cost = 1.0 - (stage.fuse_score ? iou * detection.score : iou);
        const double gain = stage.most_cost - cost;
        if (iou > 0.0 && gain > 0.0) {
          scratch_.edges.push_back({static_cast<int32_t>(row), next->second, gain});
        }
      }
    }
  }

  void Step() {
    std::vector<int32_t>& confirmed = scratch_.numbers;
    confirmed.clear();
    scratch_.unconfirmed.clear();
    for (size_t i = 0; i < tracks_.size(); ++i) {
      Track& track = tracks_[i];
      if (track.phase == TrackPhase::kUnconfirmed) {
        scratch_.unconfirmed.push_back(static_cast<int32_t>(i));
        continue;
      }
      if (track.phase == TrackPhase::kLost) track.motion.StopHeight();
      track.motion.Predict();
      confirmed.push_back(static_cast<int32_t>(i));
    }
    scratch_.seen.assign(tracks_.size(), -1);
    const bool any_class = params_.class_agnostic;
    Associate(confirmed, scratch_.high, {params_.match_threshold, params_.fuse_score, any_class});
    // Lost tracks come back by high scores only.
    std::erase_if(confirmed, [&](int32_t number) {
      return tracks_[static_cast<size_t>(number)].phase == TrackPhase::kLost;
    });
    Associate(confirmed, scratch_.low, {params_.second_match_threshold, false, any_class});
    Associate(scratch_.unconfirmed, scratch_.high,
              {params_.unconfirmed_match_threshold, params_.fuse_score, any_class});
    EndTracks(confirmed, scratch_.unconfirmed);
    StartTracks();
    DropDuplicates();
  }

  // Tracks that were lost for too long, and those that no second frame has confirmed, end; those in
  // `missed` are lost now.
  void EndTracks(std::span<const int32_t> missed, std::span<const int32_t> not_confirmed) {
    for (size_t i = 0; i < tracks_.size(); ++i) {
      const bool is_stale = frame_ - tracks_[i].last_frame > params_.max_lost_frames;
      if (tracks_[i].phase == TrackPhase::kLost && is_stale) tracks_[i].id = kNoTrack;
    }
    for (const int32_t number : missed) {
      tracks_[static_cast<size_t>(number)].phase = TrackPhase::kLost;
    }
    for (const int32_t number : not_confirmed) tracks_[static_cast<size_t>(number)].id = kNoTrack;
    RemoveEnded();
  }

  void StartTracks() {
    for (const Detection& detection : scratch_.high) {
      if (detection.score < params_.new_track_threshold) continue;
      if (tracks_.size() >= static_cast<size_t>(params_.max_tracks)) break;
      const TrackPhase phase = frame_ == 1 ? TrackPhase::kTracked : TrackPhase::kUnconfirmed;
      tracks_.push_back(
          {next_id_++, phase, detection.class_id, frame_, frame_, BoxMotion(detection.ToState())});
      scratch_.seen.push_back(detection.index);
    }
  }

  void DropDuplicates() {
    scratch_.lost.clear();
    for (size_t i = 0; i < tracks_.size(); ++i) {
      if (tracks_[i].phase == TrackPhase::kLost)
        scratch_.lost.emplace_back(i, ToCorners(tracks_[i].motion.box()));
    }
    if (scratch_.lost.empty()) return;
    // All pairs are looked at before any track ends: what is dropped does not depend on the order.
    scratch_.doomed.assign(tracks_.size(), 0);
    for (size_t i = 0; i < tracks_.size(); ++i) {
      if (tracks_[i].phase == TrackPhase::kLost) continue;
      const Corners corners = ToCorners(tracks_[i].motion.box());
      for (const auto& [number, other] : scratch_.lost) {
        if (!(Iou(corners, other) > params_.duplicate_iou)) continue;
        const bool is_older = tracks_[i].last_frame - tracks_[i].first_frame >
                              tracks_[number].last_frame - tracks_[number].first_frame;
        scratch_.doomed[is_older ? number : i] = 1;
      }
    }
    for (size_t i = 0; i < tracks_.size(); ++i) {
      if (scratch_.doomed[i] != 0) tracks_[i].id = kNoTrack;
    }
    RemoveEnded();
  }

  void RemoveEnded() {
    size_t kept = 0;
    for (size_t i = 0; i < tracks_.size(); ++i) {
      if (tracks_[i].id == kNoTrack) continue;
      tracks_[kept] = tracks_[i];
      scratch_.seen[kept++] = scratch_.seen[i];
    }
    tracks_.resize(kept);
    scratch_.seen.resize(kept);
  }

  const TrackingParams& params_;
  const int64_t frame_;  // from 1
  std::vector<Track>& tracks_;
  int64_t& next_id_;
  TrackScratch& scratch_;
};

}  // namespace

struct Tracker::State {
  explicit State(const TrackingParams& given) : params((endcap::Validate(given), given)) {}

  TrackingParams params;
  std::vector<Track> tracks;
  int64_t frame = 0;
  int64_t next_id = 1;
};

Tracker::Tracker(const TrackingParams& params) : state_(std::make_unique<State>(params)) {}
Tracker::~Tracker() = default;
Tracker::Tracker(Tracker&&) noexcept = default;
Tracker& Tracker::operator=(Tracker&&) noexcept = default;

int64_t Tracker::frames() const noexcept { return state_->frame; }
size_t Tracker::track_count() const noexcept { return state_->tracks.size(); }
const TrackingParams& Tracker::params() const noexcept { return state_->params; }

void Tracker::Reset() noexcept {
  state_->tracks.clear();
  state_->frame = 0;
  state_->next_id = 1;
}

void Tracker::Update(std::span<const float> boxes_xyxy, std::span<const float> scores,
                     std::span<const int32_t> class_ids, std::span<int64_t> track_ids) {
  const size_t count = scores.size();
  if (boxes_xyxy.size() != 4 * count || track_ids.size() != count ||
      (!class_ids.empty() && class_ids.size() != count)) {
    FailArgument("there are ", boxes_xyxy.size() / 4, " boxes, ", count, " scores and ",
                 class_ids.size(), " class ids: they must be as many");
  }
  if (count > kMaxDetections) {
    FailArgument("there are ", count, " detections: at most ", kMaxDetections, " can be tracked");
  }
  for (size_t i = 0; i < boxes_xyxy.size(); ++i) {
    if (!std::isfinite(boxes_xyxy[i])) {
      FailArgument("the box of detection ", i / 4, " is not finite");
    }
    if (std::abs(boxes_xyxy[i]) > kFarthest) {
      FailArgument("the box of detection ", i / 4, " has a side at ", boxes_xyxy[i],
                   ": boxes may reach to ", kFarthest, " pixels");
    }
  }
  for (size_t i = 0; i < count; ++i) {
    if (!std::isfinite(scores[i])) FailArgument("the score of detection ", i, " is not finite");
  }
  thread_local TrackScratch scratch;
  const TrimAtEnd trim(scratch);
  State& state = *state_;
  ++state.frame;
  FrameStep(state.params, state.frame, state.tracks, state.next_id, scratch)
      .Run(boxes_xyxy, scores, class_ids, track_ids);
}

std::string Tracker::Save() const {
  return WriteTracks({state_->frame, state_->next_id, state_->tracks});
}

void Tracker::Restore(std::string_view state) {
  SavedTracks saved = ReadTracks(state, static_cast<size_t>(state_->params.max_tracks));
  state_->frame = saved.frame;
  state_->next_id = saved.next_id;
  state_->tracks = std::move(saved.tracks);
}

}  // namespace endcap
