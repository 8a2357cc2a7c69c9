#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tracking/motion.h"

namespace endcap {

enum class TrackPhase : uint8_t { kUnconfirmed, kTracked, kLost };

struct Track {
  int64_t id;
  TrackPhase phase;
  int32_t class_id;
  int64_t first_frame;
  int64_t last_frame;  // with a detection
  BoxMotion motion;
};

// What Tracker::Save keeps.
struct SavedTracks {
  int64_t frame;
  int64_t next_id;
  std::vector<Track> tracks;
};

std::string WriteTracks(const SavedTracks& saved);

// Throws kInvalidArgument for bytes that are no such state, or one of more tracks.
SavedTracks ReadTracks(std::string_view bytes, size_t most_tracks);

}  // namespace endcap
