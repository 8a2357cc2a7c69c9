#include "triton_util/request.h"

#include <utility>

#include "endcap/error.h"
#include "triton_util/error_guard.h"

namespace endcap::triton {

std::string Request::Id() const {
  const char* id = nullptr;
  Check(TRITONBACKEND_RequestId(request_, &id));
  return id == nullptr ? "" : id;
}

std::variant<uint64_t, std::string> Request::CorrelationId() const {
  uint64_t number = 0;
  const ErrorHandle not_a_number(TRITONBACKEND_RequestCorrelationId(request_, &number));
  if (not_a_number == nullptr) return number;
  const char* text = nullptr;
  Check(TRITONBACKEND_RequestCorrelationIdString(request_, &text));
  return std::string(text);
}

uint32_t Request::Flags() const {
  uint32_t flags = 0;
  Check(TRITONBACKEND_RequestFlags(request_, &flags));
  return flags;
}

bool Request::IsCancelled() const {
  bool cancelled = false;
  Check(TRITONBACKEND_RequestIsCancelled(request_, &cancelled));
  return cancelled;
}

bool Request::WantsOutput(std::string_view name) const {
  uint32_t count = 0;
  Check(TRITONBACKEND_RequestOutputCount(request_, &count));
  for (uint32_t i = 0; i < count; ++i) {
    const char* wanted = nullptr;
    Check(TRITONBACKEND_RequestOutputName(request_, i, &wanted));
    if (name == wanted) return true;
  }
  return false;
}

std::string Request::Label() const {
  const std::string id = Id();
  std::string label = id.empty() ? "request without id" : "request '" + id + "'";
  const auto correlation = CorrelationId();
  if (const auto* text = std::get_if<std::string>(&correlation)) {
    label += ", correlation id '" + *text + "'";
  } else if (const uint64_t number = std::get<uint64_t>(correlation); number != 0) {
    label += ", correlation id " + std::to_string(number);
  }
  return label;
}

MemoryPlace Request::OutputPlace(std::string_view name, size_t size_bytes,
                                 const MemoryPlace& preferred) const {
  const std::string text(name);
  TRITONSERVER_MemoryType memory = preferred.type();
  int64_t memory_id = preferred.device_id;
  const ErrorHandle unknown(TRITONBACKEND_RequestOutputBufferProperties(
      request_, text.c_str(), &size_bytes, &memory, &memory_id));
  return unknown == nullptr ? MemoryPlace::FromTriton(memory, memory_id) : preferred;
}

std::optional<InputTensor> Request::FindInput(std::string_view name,
                                              const InputReading& reading) const {
  uint32_t count = 0;
  Check(TRITONBACKEND_RequestInputCount(request_, &count));
  for (uint32_t i = 0; i < count; ++i) {
    TRITONBACKEND_Input* input = nullptr;
    Check(TRITONBACKEND_RequestInputByIndex(request_, i, &input));
    const char* given = nullptr;
    Check(
        TRITONBACKEND_InputProperties(input, &given, nullptr, nullptr, nullptr, nullptr, nullptr));
    if (name == given) return InputTensor(input, reading);
  }
  return std::nullopt;
}

InputTensor Request::GetInput(std::string_view name, const InputReading& reading) const {
  std::optional<InputTensor> input = FindInput(name, reading);
  if (!input.has_value()) {
    throw Error(ErrorCode::kInvalidArgument,
                "input '" + std::string(name) + "' is missing in the request");
  }
  return std::move(*input);
}

}  // namespace endcap::triton
