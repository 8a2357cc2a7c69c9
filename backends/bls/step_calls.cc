#include "bls/step_calls.h"

#include <algorithm>
#include <utility>

namespace endcap::triton {

using bls::Range;

StepCalls::StepCalls(Worker& worker, Counter& counter, IsOpen is_open, Fail fail, Worker::Task then)
    : worker_(worker),
      counter_(counter),
      is_open_(std::move(is_open)),
      fail_(std::move(fail)),
      then_(std::move(then)) {}

void StepCalls::Run(std::vector<std::unique_ptr<CallPlan>> plans,
                    const std::shared_ptr<void>& owner) noexcept {
  plans_ = std::move(plans);
  for (const std::unique_ptr<CallPlan>& plan : plans_) StartAll(*plan, owner);
  if (pending_.empty()) End();
}

void StepCalls::End() noexcept {
  plans_.clear();
  then_();
}

void StepCalls::StartAll(CallPlan& plan, const std::shared_ptr<void>& owner) noexcept {
  if (plan.owners().empty()) return;
  try {
    for (const Range& items : bls::SplitIntoRanges(plan.owners().size(), plan.MaxItemsPerCall()))
      Start(plan, items, owner);
  } catch (...) {
    const Failure failure = MakeFailureFromCurrentException();
    for (const size_t request : plan.owners()) fail_(request, failure);
  }
}

void StepCalls::Start(CallPlan& plan, const Range& items,
                      const std::shared_ptr<void>& owner) noexcept {
  Position position = pending_.end();
  try {
    if (!IsNeeded(plan, items)) return;
    position = pending_.insert(position, {&plan, items, plan.NewCall(items), false});
    position->call->Start(worker_, [this, position, owner] { OnDone(position, owner); });
    counter_.Add(1);
  } catch (...) {
    const Failure failure = MakeFailureFromCurrentException();
    if (position != pending_.end()) pending_.erase(position);
    OnFailure(plan, items, failure, owner);
  }
}

void StepCalls::OnDone(Position position, const std::shared_ptr<void>& owner) noexcept {
  const Pending done = std::move(*position);
  pending_.erase(position);
  try {
    if (done.call->failure().has_value()) {
      OnFailure(*done.plan, done.items, *done.call->failure(), owner);
    } else {
      done.plan->ReadResponse(done.items, done.call);
    }
  } catch (...) {
    OnFailure(*done.plan, done.items, MakeFailureFromCurrentException(), owner);
  }
  if (pending_.empty()) End();
}

void StepCalls::OnFailure(CallPlan& plan, const Range& items, const Failure& failure,
                          const std::shared_ptr<void>& owner) noexcept {
  const std::vector<size_t>& owners = plan.owners();
  const size_t end = items.first + items.count;
  if (owners[items.first] == owners[end - 1]) {
    fail_(owners[items.first], failure);
    return;
  }
  for (size_t part = items.first, next = part; part < end; part = next) {
    while (next < end && owners[next] == owners[part]) ++next;
    Start(plan, {part, next - part}, owner);
  }
}

bool StepCalls::IsNeeded(const CallPlan& plan, const Range& items) const {
  const auto first = plan.owners().begin() + static_cast<std::ptrdiff_t>(items.first);
  return std::any_of(first, first + static_cast<std::ptrdiff_t>(items.count), is_open_);
}

void StepCalls::CancelUnneeded() noexcept {
  for (Pending& pending : pending_) {
    if (pending.cancelled || IsNeeded(*pending.plan, pending.items)) continue;
    pending.cancelled = true;
    pending.call->Cancel();
  }
}

}  // namespace endcap::triton
