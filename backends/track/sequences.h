#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <variant>

#include "endcap/tracking.h"

namespace endcap::triton {

// A client's number or text for a sequence of requests.
using SequenceId = std::variant<uint64_t, std::string>;

// The tracks of one sequence, for one frame at a time.
struct Sequence {
  explicit Sequence(const TrackingParams& params) : tracker(params) {}

  std::mutex mutex;
  Tracker tracker;
};

// The sequences of a model that have begun and not ended. Thread-safe.
class Sequences {
 public:
  using Clock = std::chrono::steady_clock;

  // limit: sequences at a time. idle: a sequence without requests for longer is dropped.
  Sequences(const TrackingParams& params, size_t limit, Clock::duration idle)
      : params_(params), limit_(limit), idle_(idle) {}

  struct Entered {
    std::shared_ptr<Sequence> sequence;
    bool replaced = false;  // an open sequence of that id
  };

  // Returns the sequence of a request; one that starts is new, in place of any of that id. Throws
  // kInvalidArgument for an id of 0 or no characters, and for a request that starts no sequence and
  // belongs to none; kOutOfMemory, which clients see as UNAVAILABLE, when there are too many.
  Entered Enter(const SequenceId& id, bool starts, Clock::time_point now);
  // Forgets a sequence that ends, unless another one of its id has begun. Returns whether it did.
  bool End(const SequenceId& id, const Sequence* sequence);
  // Drops those that have been idle for too long; returns how many.
  size_t DropIdle(Clock::time_point now);

  size_t size() const;

 private:
  struct Entry {
    std::shared_ptr<Sequence> sequence;
    Clock::time_point last_request;
  };

  const TrackingParams params_;
  const size_t limit_;
  const Clock::duration idle_;
  mutable std::mutex mutex_;
  std::map<SequenceId, Entry> entries_;
};

// "7", or "'camera 7'".
std::string DescribeSequence(const SequenceId& id);

}  // namespace endcap::triton
