#include <algorithm>
#include <memory>

#include "endcap/contract.h"
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
  constexpr int64_t kMaxIdleMicroseconds =
      int64_t{366} * 24 * 3600 * 1000000;  // of a clock in nanoseconds
  return std::chrono::microseconds(idle > 0 ? std::min(idle, kMaxIdleMicroseconds)
                                            : kDefaultIdleMicroseconds);
}

class TrackBackend final : public Backend {
 public:
  TrackBackend()
      : Backend("endcap_track",
                {{"sequences_started_total", "Sequences that have begun"},
                 {"sequences_ended_total", "Sequences that clients have ended"},
                 {"sequences_dropped_total", "Sequences that were dropped after a pause"}}) {}

  std::unique_ptr<Model> Load(ModelConfig& config) const override {
    const TrackSettings settings = ReadTrackSettings(config.parameters());
    config.Complete(settings.contract);
    const auto idle = ReadIdle(config.json()["sequence_batching"]) + kIdleMargin;
    return std::make_unique<TrackModel>(config, families(), settings, idle);
  }
};

}  // namespace

std::unique_ptr<Backend> CreateBackend() { return std::make_unique<TrackBackend>(); }

}  // namespace endcap::triton
