#include "track/sequences.h"

#include <string>
#include <utility>

#include "endcap/error.h"

namespace endcap::triton {

std::string DescribeSequence(const SequenceId& id) {
  if (const auto* number = std::get_if<uint64_t>(&id)) return std::to_string(*number);
  return "'" + ClipText(std::get<std::string>(id)) + "'";
}

Sequences::Entered Sequences::Enter(const SequenceId& id, bool starts, Clock::time_point now) {
  if (id == SequenceId{uint64_t{0}} || id == SequenceId{std::string()}) {
    throw Error(
        ErrorCode::kInvalidArgument,
        "the request belongs to no sequence: give the frames of a camera or a file one sequence "
        "id, which is not 0, and the first of them the start flag");
  }
  const std::scoped_lock lock(mutex_);
  const auto found = entries_.find(id);
  if (found != entries_.end() && !starts) {
    found->second.last_request = now;
    return {found->second.sequence};
  }
  if (!starts) {
    throw Error(ErrorCode::kInvalidArgument,
                "sequence " + DescribeSequence(id) +
                    " has not begun, or was dropped after a pause: send its next frame with the "
                    "start flag");
  }
  if (found == entries_.end() && entries_.size() >= limit_) {
    throw Error(ErrorCode::kOutOfMemory,
                "there are " + std::to_string(entries_.size()) +
                    " sequences, and max_sequences allows no more at a time: end those that are "
                    "done with the end flag");
  }
  auto sequence = std::make_shared<Sequence>(params_);
  entries_.insert_or_assign(id, Entry{sequence, now});
  return {std::move(sequence), found != entries_.end()};
}

bool Sequences::End(const SequenceId& id, const Sequence* sequence) {
  const std::scoped_lock lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end() || found->second.sequence.get() != sequence) return false;
  entries_.erase(found);
  return true;
}

size_t Sequences::DropIdle(Clock::time_point now) {
  const std::scoped_lock lock(mutex_);
  return std::erase_if(entries_,
                       [&](const auto& each) { return now - each.second.last_request > idle_; });
}

size_t Sequences::size() const {
  const std::scoped_lock lock(mutex_);
  return entries_.size();
}

}  // namespace endcap::triton
