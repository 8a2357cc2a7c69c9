#include "tracking/track.h"

#include <bit>
#include <cmath>
#include <unordered_set>
#include <utility>

#include "common/fail.h"

namespace endcap {
namespace {

// Every number takes 8 bytes, the lowest first.
constexpr uint64_t kMark = 0x314B'4341'5254'4345;  // "ECTRACK1"
constexpr size_t kHeaderNumbers = 4;
constexpr size_t kMotionNumbers = 20;
constexpr size_t kTrackNumbers = 5 + kMotionNumbers;
constexpr int64_t kMostSavedFrames = int64_t{1} << 40;
constexpr int64_t kMostSavedIds = int64_t{1} << 60;
// Boxes within Tracker::kFarthest stay far below, the aspect of a very flat one included.
constexpr double kMostNumber = 1e100;

class Writer {
 public:
  void Add(uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8) {
      bytes_.push_back(static_cast<char>(number >> shift & 0xFFU));
    }
  }
  void Add(int64_t number) { Add(static_cast<uint64_t>(number)); }
  void Add(double number) { Add(std::bit_cast<uint64_t>(number)); }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  uint64_t Take() {
    uint64_t number = 0;
    for (int shift = 0; shift < 64; shift += 8) {
      number |= static_cast<uint64_t>(static_cast<unsigned char>(bytes_[at_++])) << shift;
    }
    return number;
  }
  int64_t TakeInteger() { return static_cast<int64_t>(Take()); }
  double TakeNumber() { return std::bit_cast<double>(Take()); }

 private:
  std::string_view bytes_;  // long enough
  size_t at_ = 0;
};

[[noreturn]] void FailState(const char* why) {
  FailArgument("the state of a tracker ", why, ": give bytes that Save has written");
}

BoxMotion TakeMotion(Reader& reader) {
  BoxMotion::Numbers numbers;
  for (BoxMotion::Number& n : numbers) {
    for (double* part :
         {&n.value, &n.velocity, &n.value_variance, &n.covariance, &n.velocity_variance}) {
      *part = reader.TakeNumber();
      if (!(std::abs(*part) <= kMostNumber)) FailState("has a number that cannot be");
    }
    if (n.value_variance < 0.0 || n.velocity_variance < 0.0) FailState("has a negative variance");
  }
  return BoxMotion(numbers);
}

Track TakeTrack(Reader& reader, int64_t frame, int64_t next_id) {
  Track track = {};
  track.id = reader.TakeInteger();
  const uint64_t phase = reader.Take();
  const int64_t class_id = reader.TakeInteger();
  track.first_frame = reader.TakeInteger();
  track.last_frame = reader.TakeInteger();
  if (track.id < 1 || track.id >= next_id) FailState("has an id that was not given");
  if (phase > static_cast<uint64_t>(TrackPhase::kLost)) FailState("has an unknown phase");
  track.phase = static_cast<TrackPhase>(phase);
  track.class_id = static_cast<int32_t>(class_id);
  if (track.class_id != class_id) FailState("has a class id that is too large");
  if (track.first_frame < 1 || track.last_frame < track.first_frame || track.last_frame > frame) {
    FailState("has a track of frames that have not been");
  }
  track.motion = TakeMotion(reader);
  return track;
}

}  // namespace

std::string WriteTracks(const SavedTracks& saved) {
  Writer writer;
  writer.Add(kMark);
  writer.Add(saved.frame);
  writer.Add(saved.next_id);
  writer.Add(uint64_t{saved.tracks.size()});
  for (const Track& track : saved.tracks) {
    writer.Add(track.id);
    writer.Add(static_cast<uint64_t>(track.phase));
    writer.Add(int64_t{track.class_id});
    writer.Add(track.first_frame);
    writer.Add(track.last_frame);
    for (const BoxMotion::Number& n : track.motion.numbers()) {
      for (const double part :
           {n.value, n.velocity, n.value_variance, n.covariance, n.velocity_variance}) {
        writer.Add(part);
      }
    }
  }
  return writer.Take();
}

SavedTracks ReadTracks(std::string_view bytes, size_t most_tracks) {
  constexpr size_t kHeaderBytes = 8 * kHeaderNumbers;
  if (bytes.size() < kHeaderBytes) FailState("is too short");
  Reader reader(bytes);
  if (reader.Take() != kMark) FailState("does not begin as one");
  SavedTracks saved = {reader.TakeInteger(), reader.TakeInteger(), {}};
  const uint64_t count = reader.Take();
  if (saved.frame < 0 || saved.frame > kMostSavedFrames || saved.next_id < 1 ||
      saved.next_id > kMostSavedIds) {
    FailState("has numbers that cannot be");
  }
  if (count > most_tracks) {
    FailArgument("the state of a tracker has ", count, " tracks: max_tracks is ", most_tracks);
  }
  if (bytes.size() != kHeaderBytes + 8 * kTrackNumbers * count) {
    FailState("has another length than its tracks take");
  }
  std::unordered_set<int64_t> ids;
  for (uint64_t i = 0; i < count; ++i) {
    saved.tracks.push_back(TakeTrack(reader, saved.frame, saved.next_id));
    if (!ids.insert(saved.tracks.back().id).second) FailState("has an id twice");
  }
  return saved;
}

}  // namespace endcap
