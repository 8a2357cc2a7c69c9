#include "bls/calls.h"

#include <algorithm>
#include <new>
#include <utility>

namespace endcap::triton {

using bls::Range;

Calls::Calls(Worker& worker, Counter& counter, IsOpen is_open, Fail fail)
    : worker_(worker), counter_(counter), is_open_(std::move(is_open)), fail_(std::move(fail)) {}

void Calls::Run(std::vector<std::unique_ptr<Work>> works, const std::shared_ptr<void>& keep,
                std::function<void()> then) noexcept {
  works_ = std::move(works);
  then_ = std::move(then);
  for (const std::unique_ptr<Work>& work : works_) StartAll(*work, keep);
  if (pending_.empty()) End();
}

void Calls::End() noexcept {
  const auto then = std::exchange(then_, nullptr);
  works_.clear();
  then();
}

void Calls::StartAll(Work& work, const std::shared_ptr<void>& keep) noexcept {
  if (work.owners().empty()) return;
  try {
    for (const Range& items : bls::InRanges(work.owners().size(), work.Limit()))
      Start(work, items, keep);
  } catch (...) {
    const Failure failure = FailureOfCurrentException();
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
    const Failure failure = FailureOfCurrentException();
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
    OnFailure(*done.work, done.items, FailureOfCurrentException(), keep);
  }
  if (pending_.empty()) End();
}

void Calls::OnFailure(Work& work, const Range& items, const Failure& failure,
                      const std::shared_ptr<void>& keep) noexcept {
  work.Forget();
  const std::vector<size_t>& owners = work.owners();
  try {
    const std::vector<Range> shares = bls::SharesOf(items, owners);
    if (shares.size() > 1) {
      for (const Range& share : shares) Start(work, share, keep);
      return;
    }
  } catch (const std::bad_alloc&) {
    // Then none is tried again.
  }
  for (size_t i = 0; i < items.count; ++i) fail_(owners[items.first + i], failure);
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
