#include <algorithm>
#include <memory>
#include <string>

#include "endcap/error.h"
#include "endcap/tracking.h"
#include "track/track_model.h"
#include "triton_util/model.h"

namespace endcap::triton {
namespace {

constexpr int64_t kDefaultIdleMicroseconds = 1000000;  // Triton's
// A frame may wait in front of the model after the server has taken it into its sequence.
constexpr auto kIdleMargin = std::chrono::seconds(1);

std::chrono::microseconds ReadIdle(const nlohmann::json& batching) {
  const auto found = batching.find("max_sequence_idle_microseconds");
  int64_t idle = 0;
  if (found != batching.end()) {
    idle = found->get<int64_t>();
  }
  constexpr int64_t kLongest = int64_t{366} * 24 * 3600 * 1000000;  // of a clock in nanoseconds
  return std::chrono::microseconds(idle > 0 ? std::min(idle, kLongest) : kDefaultIdleMicroseconds);
}

class TrackBackend final : public Backend {
 public:
  TrackBackend()
      : Backend("endcap_track",
                {{"sequences_started_total", "Sequences that have begun"},
                 {"sequences_ended_total", "Sequences that clients have ended"},
                 {"sequences_dropped_total", "Sequences that were dropped after a pause"}}) {}

  std::unique_ptr<Model> Load(ModelConfig& config) const override {
    TrackSettings settings;
    if (const auto text = config.TakeParameter("max_sequences")) {
      const int count = ParseCount("max_sequences", *text);
      if (count == 0) {
        throw Error(ErrorCode::kInvalidArgument, "max_sequences is 0: give 1 or more");
      }
      settings.max_sequences = static_cast<size_t>(count);
    }
    const TrackingParams params =
        ParseTrackingParams(config.Parameters(DescribeAllTrackingParams(), "preset"));
    const auto batching = config.json().find("sequence_batching");
    if (batching == config.json().end()) {
      throw Error(
          ErrorCode::kInvalidArgument,
          "the frames of a sequence have to come one after the other: add sequence_batching { "
          "max_sequence_idle_microseconds: 10000000 oldest { max_candidate_sequences: 1024 } } to "
          "config.pbtxt");
    }
    settings.idle = ReadIdle(*batching) + kIdleMargin;
    config.CompleteTensors(TrackInputContracts(), TrackOutputContracts());
    return std::make_unique<TrackModel>(config, families(), params, settings);
  }
};

}  // namespace

std::unique_ptr<Backend> CreateBackend() { return std::make_unique<TrackBackend>(); }

}  // namespace endcap::triton
