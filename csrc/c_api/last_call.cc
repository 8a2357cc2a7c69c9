#include "c_api/last_call.h"

namespace endcap::c_api {
namespace {

thread_local std::string last_error;
thread_local std::vector<std::string> item_errors;

}  // namespace

endcap_status KeepError(ItemStatus error) noexcept {
  last_error = std::move(error.message);
  return static_cast<endcap_status>(error.code);
}

void KeepItemErrors(std::vector<std::string> messages) noexcept {
  item_errors = std::move(messages);
}

}  // namespace endcap::c_api

using endcap::c_api::item_errors;
using endcap::c_api::last_error;

const char* endcap_last_error(void) { return last_error.c_str(); }

const char* endcap_item_error(size_t i) {
  return i < item_errors.size() ? item_errors[i].c_str() : "";
}
