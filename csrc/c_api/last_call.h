#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "endcap/c_api.h"
#include "endcap/error.h"

namespace endcap::c_api {

// The results of the calling thread's last calls, for endcap_last_error and endcap_item_error.

// Keeps the message; returns the code.
endcap_status KeepError(ItemStatus error) noexcept;

// The messages of a run's items, in place of those of the run before.
void KeepItemErrors(std::vector<std::string> messages) noexcept;

// The messages of what a core's run returned.
template <typename Item>
std::vector<std::string> TakeMessages(std::vector<Item>& items) {
  std::vector<std::string> messages;
  messages.reserve(items.size());
  for (Item& item : items) messages.push_back(std::move(item.status.message));
  return messages;
}

// The body of every function that can fail: no exception leaves it.
template <typename Body>
endcap_status Guarded(const Body& body) noexcept {
  try {
    body();
    return 0;
  } catch (...) {
    return KeepError(MakeStatusFromCurrentException());
  }
}

// The same for runs, which begin without items' messages.
template <typename Body>
endcap_status GuardedRun(const Body& body) noexcept {
  KeepItemErrors({});
  return Guarded(body);
}

}  // namespace endcap::c_api
