#include "bls/calls.h"

#include <algorithm>
#include <utility>

namespace endcap::triton {

using bls::Range;

Calls::Calls(Worker& worker, Counter& counter, IsOpen is_open, Fail fail, Worker::Task then)
    : worker_(worker),
      counter_(counter),
      is_open_(std::move(is_open)),
      fail_(std::move(fail)),
      then_(std::move(then)) {}

void Calls::Run(std::vector<std::unique_ptr<Work>> works,
                const std::shared_ptr<void>& keep) noexcept {
  works_ = std::move(works);
  for (const std::unique_ptr<Work>& work : works_) StartAll(*work, keep);
  if (pending_.empty()) End();
}

void Calls::End() noexcept {
  works_.clear();
  then_();
}

void Calls::StartAll(Work& work, const std::shared_ptr<void>& keep) noexcept {
  if (work.owners().empty()) return;
  try {
    for (const Range& items : bls::InRanges(work.owners().size(), work.Limit()))
      Start(work, items, keep);
  } catch (...) {
    const Failure failure = MakeFailureFromCurrentException();
    for (const size_t request : work.owners()) fail_(request, failure);
  }
}

void Calls::Start(Work& work, const Range& items, const std::shared_ptr<void>& keep) noexcept {
  Place place = pending_.end();
  try {
    if (!IsNeeded(work, items)) return;
    place = pending_.insert(place, {&work, items, work.NewCall(items), false});
    place->call->Start(worker_, [this, place, keep] { OnDone(place, keep); });
    counter_.Add(1);
  } catch (...) {
    const Failure failure = MakeFailureFromCurrentException();
    if (place != pending_.end()) pending_.erase(place);
    OnFailure(work, items, failure, keep);
  }
}

void Calls::OnDone(Place place, const std::shared_ptr<void>& keep) noexcept {
  const Pending done = std::move(*place);
  pending_.erase(place);
  try {
    if (done.call->failure().has_value()) {
      OnFailure(*done.work, done.items, *done.call->failure(), keep);
    } else {
      done.work->Take(done.items, done.call);
    }
  } catch (...) {
    OnFailure(*done.work, done.items, MakeFailureFromCurrentException(), keep);
  }
  if (pending_.empty()) End();
}

void Calls::OnFailure(Work& work, const Range& items, const Failure& failure,
                      const std::shared_ptr<void>& keep) noexcept {
  const std::vector<size_t>& owners = work.owners();
  const size_t end = items.first + items.count;
  if (owners[items.first] == owners[end - 1]) {
    fail_(owners[items.first], failure);
    return;
  }
  for (size_t share = items.first, next = share; share < end; share = next) {
    while (next < end && owners[next] == owners[share]) ++next;
    Start(work, {share, next - share}, keep);
  }
}

bool Calls::IsNeeded(const Work& work, const Range& items) const {
  const auto first = work.owners().begin() + static_cast<std::ptrdiff_t>(items.first);
  return std::any_of(first, first + static_cast<std::ptrdiff_t>(items.count), is_open_);
}

void Calls::CancelUnneeded() noexcept {
  for (Pending& pending : pending_) {
    if (pending.cancelled || IsNeeded(*pending.work, pending.items)) continue;
    pending.cancelled = true;
    pending.call->Cancel();
  }
}

}  // namespace endcap::triton
