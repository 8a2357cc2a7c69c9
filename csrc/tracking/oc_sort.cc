#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <optional>
#include <utility>
#include <vector>

#include "common/score_order.h"
#include "endcap/tracking.h"
#include "tracking/method.h"

// OC-SORT (arXiv 2203.14360), with the ids of Roboflow's `trackers`. Section numbers are the
// paper's.

namespace endcap {
namespace {

constexpr uint64_t kMark = 0x434B'4341'5254'4345;  // "ECTRACKC"

constexpr size_t kMaxObservations = kMaxDirectionFrames + 1;

struct Direction {
  double x, y;
};

// From the centre of one box to that of another, of length 1, or 0 for the same centre.
Direction DirectionBetween(const Corners& from, const Corners& to) {
  const double x = to.cx() - from.cx();
  const double y = to.cy() - from.cy();
  const double length = std::sqrt(x * x + y * y) + 1e-6;
  return {x / length, y / length};
}

struct Observation {
  double age;
  Corners box;
};

void VisitCorners(SavedState& state, Corners& box) {
  for (double* side : {&box.x1, &box.y1, &box.x2, &box.y2}) state.Number(*side);
}

struct Track {
  int64_t id = kNoTrack;  // until it is confirmed
  int32_t class_id = 0;
  double age = 0.0;         // frames since the first
  double missed = 0.0;      // frames without a detection, from the first one that was looked at
  int64_t consecutive = 0;  // frames with a detection, without a gap; the first does not count
  Corners last = {};        // the last box that was detected
  std::optional<Direction> direction;
  std::vector<Observation> observations;  // of the last frames, without the first box
  AreaMotion motion;
  std::optional<AreaMotion> frozen;  // of the first frame without a detection
  double frozen_after = 0.0;         // frames since the last detection

  explicit Track(const Detection& first)
      : class_id(first.class_id), last(first.corners), motion(AreaBox::Measure(first.corners)) {}
  Track() = default;

  // looked_at: whether the frame has detections, or was skipped.
  void Predict(bool looked_at, double frames) {
    if (!frozen && unseen() > 0.0) {
      frozen = motion;
      frozen_after = unseen();
    }
    motion.Predict(frames);
    if (looked_at && missed > 0.0) consecutive = 0;
    if (looked_at || missed > 0.0) missed += frames;
    age += frames;
  }

  // Directions turn, and boxes of the past are moved to where they would be seen now.
  void Move(const CameraMotion& camera) {
    motion.Move(camera);
    if (frozen) frozen->Move(camera);
    last = camera.Move(last);
    for (Observation& seen : observations) seen.box = camera.Move(seen.box);
    if (!direction) return;
    const auto [x, y, x2, y2] =
        camera.Move({direction->x, direction->y, direction->x, direction->y}, 0.0);
    direction = Direction{x / camera.scale(), y / camera.scale()};
  }

  // Frames since the last detection, skipped ones included.
  double unseen() const { return observations.empty() ? age : age - observations.back().age; }

  // The box that a direction begins at: of `frames` ago, or else the oldest that is newer.
  const Corners* Earlier(int frames) const {
    for (const Observation& seen : observations) {
      if (seen.age >= age - frames - 0.5 && seen.age < age) return &seen.box;
    }
    return observations.empty() ? nullptr : &observations.back().box;
  }

  void Correct(const Detection& detection, int direction_frames) {
    const Corners& box = detection.corners;
    if (const Corners* earlier = Earlier(direction_frames)) {
      direction = DirectionBetween(*earlier, box);
    }
    if (frozen) {
      motion = *frozen;
      frozen.reset();
      MoveBetween(last, box);
    }
    motion.Correct(AreaBox::Measure(box));
    missed = 0;
    ++consecutive;
    last = box;
    class_id = detection.class_id;
    observations.push_back({age, box});
    if (observations.size() > kMaxObservations) observations.erase(observations.begin());
    std::erase_if(observations,
                  [&](const Observation& each) { return each.age < age - direction_frames - 0.5; });
  }

  // Section 4.1: the frames without a detection once more, on a straight line between the boxes
  // before and after them.
  void MoveBetween(const Corners& before, const Corners& after) {
    const AreaBox first = AreaBox::Measure(before);
    const AreaBox second = AreaBox::Measure(after);
    const double more = unseen() - frozen_after;
    const int64_t steps = std::max<int64_t>(std::llround(more), 1);
    const double pace = more / static_cast<double>(steps);
    const auto gap = static_cast<float>(unseen());
    const auto between = [&](float from, float to, float step) {
      return from + step * (to - from) / gap;
    };
    for (int64_t i = 0; i <= steps; ++i) {
      const auto step = static_cast<float>(frozen_after + static_cast<double>(i) * pace);
      const float width = between(first.width(), second.width(), step);
      const float height = between(first.height(), second.height(), step);
      motion.Correct({between(first.cx, second.cx, step), between(first.cy, second.cy, step),
                      width * height, width / height});
      if (i < steps) motion.Predict(pace);
    }
  }

  void Visit(SavedState& state) {
    state.Integer(id, kNoTrack, kMaxSavedIds);
    state.Integer(class_id, INT32_MIN, INT32_MAX);
    state.Number(age, 0.0, kMaxSavedFrames);
    state.Number(missed, 0.0, age);
    state.Integer(consecutive, 0, kMaxSavedFrames);
    VisitCorners(state, last);
    if (state.Has(direction) && direction) {
      state.Number(direction->x);
      state.Number(direction->y);
    }
    size_t count = observations.size();
    state.Integer(count, 0, kMaxObservations);
    observations.resize(count);
    double after = 0.0;
    for (Observation& seen : observations) {
      state.Number(seen.age, after, age);
      after = seen.age;
      VisitCorners(state, seen.box);
    }
    motion.Visit(state);
    if (state.Has(frozen) && frozen) {
      frozen->Visit(state);
      state.Number(frozen_after, 0.0, unseen());
    }
  }
};

struct Scratch : MatchScratch {
  std::vector<Detection> high;
  std::vector<int32_t> unmatched;  // numbers of tracks
  std::vector<Corners> starts;     // of each track, the box that its direction begins at
  std::vector<Edge> matches;
};

class OcSort final : public TrackList<Track> {
 public:
  explicit OcSort(const TrackingParams& params) : TrackList(params, kMark) {}

 private:
  void UpdateTracks(std::span<const Detection> detections, std::span<int64_t> track_ids) override {
    thread_local Scratch scratch;
    const TrimOnExit trim(scratch);
    // Frames before the first detection, and after the last track has ended, do not count.
    if (tracks_.empty() && detections.empty()) return;
    scratch.high.clear();
    for (const Detection& detection : detections) {
      if (AtLeast(detection.score, params_.high_score_threshold)) scratch.high.push_back(detection);
    }
    scratch.unmatched.clear();
    for (Track& track : tracks_) {
      scratch.unmatched.push_back(static_cast<int32_t>(scratch.unmatched.size()));
      track.Predict(true, step_);
    }
    MatchByMomentum(scratch, track_ids);
    MatchLastBoxes(scratch, track_ids);
    StartTracks(scratch.high, [](const Detection& first) { return Track(first); });
    EndTracks();
    ++counted_frames_;
  }

  int64_t* SavedNumber() override { return &counted_frames_; }

  void SkipFrame() override {
    for (Track& track : tracks_) track.Predict(false, step_);
    EndTracks();
  }

  void EndTracks() {
    std::erase_if(tracks_, [&](const Track& track) { return IsTooLong(track.missed); });
  }

  // Section 4.2: predicted boxes by IoU, and by how little a match changes the track's direction.
  // All tracks or all detections are assigned, whichever are fewer; those that overlap enough are
  // matches.
  void MatchByMomentum(Scratch& scratch, std::span<int64_t> track_ids) {
    if (tracks_.empty() || scratch.high.empty()) return;
    double best_score = 0.0;
    for (const Detection& detection : scratch.high) {
      best_score = std::max(best_score, std::abs(detection.score));
    }
    // Pairs that do not overlap gain no more than that.
    const double most_apart = 0.5 * params_.direction_weight * best_score;
    const bool by_track = tracks_.size() <= scratch.high.size();
    const size_t rows = by_track ? tracks_.size() : scratch.high.size();
    const size_t columns = by_track ? scratch.high.size() : tracks_.size();
    FindOverlaps(scratch, by_track);
    const auto fill = [&](size_t row, std::span<double> gains) {
      for (size_t column = 0; column < columns; ++column) {
        gains[column] = by_track ? Momentum(row, column, scratch) : Momentum(column, row, scratch);
      }
    };
    scratch.matches.clear();
    for (Edge match : scratch.assignment.SolveAll(scratch.edges, most_apart, rows, columns, fill)) {
      if (!by_track) std::swap(match.row, match.column);
      scratch.matches.push_back(match);
    }
    std::ranges::sort(scratch.matches, {}, &Edge::row);  // ids are given in the order of tracks
    TakeMatches(scratch.matches, scratch.unmatched, scratch.high,
                [&](Track& track, const Detection& detection, double /*gain*/) {
                  const double iou = Iou(track.motion.box(), detection.corners);
                  return MayMatch(track, detection) && iou > 0.0 &&
                         TakeMatch(track, detection, iou, params_.match_threshold, track_ids);
                });
  }

  // Makes edges of tracks and detections that overlap; a track is a row where `by_track`, else a
  // column. Finds where the directions of tracks begin, too.
  void FindOverlaps(Scratch& scratch, bool by_track) const {
    scratch.edges.clear();
    scratch.starts.clear();
    scratch.overlaps.SetDetections(scratch.high);
    for (size_t i = 0; i < tracks_.size(); ++i) {
      const Track& track = tracks_[i];
      const Corners* earlier = track.Earlier(params_.direction_frames);
      scratch.starts.push_back(earlier != nullptr ? *earlier : track.last);
      scratch.overlaps.Find(track.motion.box(), [&](int32_t number, double iou) {
        const auto detection = static_cast<size_t>(number);
        if (!MayMatch(track, scratch.high[detection])) return;
        const double gain = RoundToFloat(iou) + Momentum(i, detection, scratch);
        Edge edge = {static_cast<int32_t>(i), number, gain};
        if (!by_track) std::swap(edge.row, edge.column);
        scratch.edges.push_back(edge);
      });
    }
  }

  // What a pair gains beside its IoU.
  double Momentum(size_t track, size_t detection, const Scratch& scratch) const {
    const std::optional<Direction>& direction = tracks_[track].direction;
    if (!direction) return 0.0;
    const Detection& to = scratch.high[detection];
    const Direction wanted = DirectionBetween(scratch.starts[track], to.corners);
    const double cosine = std::clamp(wanted.x * direction->x + wanted.y * direction->y, -1.0, 1.0);
    const double consistency = 0.5 - std::acos(cosine) / std::numbers::pi;
    return params_.direction_weight * consistency * to.score;
  }

  // Section 4.3: the tracks that remain by the box where they were seen last.
  void MatchLastBoxes(Scratch& scratch, std::span<int64_t> track_ids) {
    Associate(
        scratch.unmatched, scratch.high, scratch, [](const Track& track) { return track.last; },
        [](const Detection& /*detection*/, double iou) { return RoundToFloat(iou); },
        [&](Track& track, const Detection& detection, double iou) {
          return TakeMatch(track, detection, iou, params_.second_match_threshold, track_ids);
        });
  }

  // Returns whether the boxes overlap enough for a match.
  bool TakeMatch(Track& track, const Detection& detection, double iou, double threshold,
                 std::span<int64_t> track_ids) {
    if (!AtLeast(iou, 1.0 - threshold)) return false;
    track.Correct(detection, params_.direction_frames);
    const bool is_beginning = counted_frames_ <= params_.confirm_frames;
    if (is_beginning || track.consecutive >= params_.confirm_frames) {
      if (track.id == kNoTrack) track.id = next_id_++;
      track_ids[static_cast<size_t>(detection.index)] = track.id;
    }
    return true;
  }

  int64_t counted_frames_ = 0;  // before this one
};

}  // namespace

std::unique_ptr<TrackingMethodState> MakeOcSort(const TrackingParams& params) {
  return std::make_unique<OcSort>(params);
}

}  // namespace endcap
