#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "common/fail.h"
#include "endcap/tracking.h"
#include "tracking/method.h"

namespace endcap {
namespace {

std::unique_ptr<TrackingMethodState> MakeMethod(const TrackingParams& params) {
  switch (params.method) {
    case TrackingMethod::kByteTrack:
      return MakeByteTrack(params);
    case TrackingMethod::kSideByteTrack:
      return MakeSideByteTrack(params);
    case TrackingMethod::kOcSort:
      return MakeOcSort(params);
  }
  Fail(ErrorCode::kInternal, "an unknown tracking method");
}

void CheckDetections(std::span<const float> boxes_xyxy, std::span<const float> scores,
                     std::span<const int32_t> class_ids, size_t id_count) {
  const size_t count = scores.size();
  if (boxes_xyxy.size() != 4 * count || id_count != count ||
      (!class_ids.empty() && class_ids.size() != count)) {
    FailArgument("there are ", boxes_xyxy.size() / 4, " boxes, ", count, " scores and ",
                 class_ids.size(), " class ids: they must be as many");
  }
  if (count > Tracker::kMaxDetections) {
    FailArgument("there are ", count, " detections: at most ", Tracker::kMaxDetections,
                 " can be tracked");
  }
  for (size_t i = 0; i < boxes_xyxy.size(); ++i) {
    if (!std::isfinite(boxes_xyxy[i])) {
      FailArgument("the box of detection ", i / 4, " is not finite");
    }
    if (std::abs(boxes_xyxy[i]) > Tracker::kFarthest) {
      FailArgument("the box of detection ", i / 4, " has a side at ", boxes_xyxy[i],
                   ": boxes may reach to ", Tracker::kFarthest, " pixels");
    }
  }
  for (size_t i = 0; i < count; ++i) {
    if (!std::isfinite(scores[i])) FailArgument("the score of detection ", i, " is not finite");
  }
}

}  // namespace

struct Tracker::State {
  explicit State(const TrackingParams& given)
      : params((endcap::Validate(given), given)), method(MakeMethod(params)) {}

  const TrackingParams params;  // the method has a reference
  std::unique_ptr<TrackingMethodState> method;
};

Tracker::Tracker(const TrackingParams& params) : state_(std::make_unique<State>(params)) {}
Tracker::~Tracker() = default;
Tracker::Tracker(Tracker&&) noexcept = default;
Tracker& Tracker::operator=(Tracker&&) noexcept = default;

int64_t Tracker::frames() const noexcept { return state_->method->frames(); }
size_t Tracker::track_count() const noexcept { return state_->method->track_count(); }
const TrackingParams& Tracker::params() const noexcept { return state_->params; }

void Tracker::Reset() { state_->method = MakeMethod(state_->params); }

void Tracker::Update(std::span<const float> boxes_xyxy, std::span<const float> scores,
                     std::span<const int32_t> class_ids, std::span<int64_t> track_ids,
                     const FrameInfo& info) {
  CheckDetections(boxes_xyxy, scores, class_ids, track_ids.size());
  thread_local std::vector<Detection> detections;
  detections.clear();
  for (size_t i = 0; i < scores.size(); ++i) {
    const float* box = boxes_xyxy.data() + 4 * i;
    const Corners corners = {box[0], box[1], box[2], box[3]};
    if (!(corners.x2 > corners.x1) || !(corners.y2 > corners.y1)) continue;
    detections.push_back(
        {corners, scores[i], class_ids.empty() ? 0 : class_ids[i], static_cast<int32_t>(i)});
  }
  std::ranges::fill(track_ids, kNoTrack);
  state_->method->Update(detections, track_ids, info);
}

void Tracker::Skip(int64_t frames) {
  if (frames < 0) FailArgument("frames is ", frames, ": give how many were skipped, 0 or more");
  state_->method->Skip(frames);
}

std::string Tracker::Save() const { return state_->method->Save(); }

void Tracker::Restore(std::string_view state) {
  std::unique_ptr<TrackingMethodState> restored = MakeMethod(state_->params);
  restored->Restore(state);
  state_->method = std::move(restored);
}

}  // namespace endcap
