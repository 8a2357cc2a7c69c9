#include "triton_util/cost_queue.h"

#include <algorithm>
#include <limits>

namespace endcap::triton {

size_t CostQueue::ClassOf(double cost) noexcept {
  constexpr double kFactor = 4;
  size_t number = 0;
  double limit = 1;
  while (cost >= limit && number + 1 < kClassCount) {
    limit *= kFactor;
    ++number;
  }
  return number;
}

double CostQueue::NextStart(size_t number) const noexcept {
  // A class owes nothing for what it was served while no other request waited.
  return empty() ? virtual_time_ : std::max(virtual_time_, classes_[number].finish);
}

double CostQueue::CostBefore(double cost) const noexcept {
  const size_t number = ClassOf(cost);
  const double start = NextStart(number);
  double before = 0;
  for (size_t i = 0; i < kClassCount; ++i) {
    const std::deque<Entry>& entries = classes_[i].entries;
    if (entries.empty()) continue;
    double of_class = 0;
    for (const Entry& entry : entries) {
      if (i == number || entry.start <= start) of_class += entry.cost;
    }
    // A class that waits now is taken to go on, and gets its share until then.
    before += i == number ? of_class : std::max(of_class, start - virtual_time_);
  }
  return before;
}

void CostQueue::Push(const RequestTask& task, double cost, double deadline_ms) {
  const size_t number = ClassOf(cost);
  CostClass& own = classes_[number];
  const double start = NextStart(number);
  own.entries.push_back({task, cost, deadline_ms, start});
  if (empty()) {
    for (CostClass& each : classes_) each.finish = start;
  }
  own.finish = start + cost;
  ++size_;
  cost_ += cost;
}

CostQueue::Entry CostQueue::Pop() noexcept {
  const auto start = [](const CostClass& each) {
    constexpr double kNever = std::numeric_limits<double>::infinity();
    return each.entries.empty() ? kNever : each.entries.front().start;
  };
  std::deque<Entry>& next = std::ranges::min_element(classes_, {}, start)->entries;
  const Entry entry = next.front();
  next.pop_front();
  virtual_time_ = entry.start;
  --size_;
  cost_ = empty() ? 0 : cost_ - entry.cost;
  return entry;
}

}  // namespace endcap::triton
