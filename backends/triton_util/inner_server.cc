#include "triton_util/inner_server.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "triton_util/response_memory.h"

namespace endcap::triton {
namespace {

constexpr uint32_t kConfigVersion = 1;

InnerModel ReadModel(TRITONSERVER_Server* server, const std::string& name) {
  TRITONSERVER_Message* raw = nullptr;
  Check(TRITONSERVER_ServerModelConfig(server, name.c_str(), kNewestVersion, kConfigVersion, &raw));
  const MessageHandle message(raw);
  const char* text = nullptr;
  size_t size = 0;
  Check(TRITONSERVER_MessageSerializeToJson(message.get(), &text, &size));
  const nlohmann::json config = nlohmann::json::parse(text, text + size);
  InnerModel model;
  model.name = name;
  model.max_batch_size = config.value("max_batch_size", 0);
  for (const auto& output : config.value("output", nlohmann::json::array())) {
    model.outputs.insert(output.value("name", ""));
  }
  return model;
}

}  // namespace

Failure InnerFailure(const std::string& model, TRITONSERVER_Error_Code code,
                     const std::string& message) {
  // These codes say something else of the request that made the call: not this model's memory has
  // run out, and not its client has gone.
  const bool is_own =
      code != TRITONSERVER_ERROR_UNAVAILABLE && code != TRITONSERVER_ERROR_CANCELLED;
  const ErrorCode reason = is_own ? ToErrorCode(code) : ErrorCode::kInternal;
  if (code == TRITONSERVER_ERROR_CANCELLED) code = TRITONSERVER_ERROR_INTERNAL;
  return {code, reason, "model '" + model + "': " + message, /*names_its_class=*/true};
}

InnerServer::InnerServer(TRITONBACKEND_Model* model, Clock::duration max_age) : max_age_(max_age) {
  Check(TRITONBACKEND_ModelServer(model, &server_));
  TRITONBACKEND_Backend* backend = nullptr;
  Check(TRITONBACKEND_ModelBackend(model, &backend));
  Check(TRITONBACKEND_BackendMemoryManager(backend, &manager_));
  allocator_ = NewResponseAllocator();
}

bool InnerServer::IsReady(const std::string& model) const noexcept {
  bool ready = false;
  const ErrorHandle unknown(
      TRITONSERVER_ServerModelIsReady(server_, model.c_str(), kNewestVersion, &ready));
  return unknown == nullptr && ready;
}

const InnerModel& InnerServer::Describe(const std::string& model) {
  const Clock::time_point now = Clock::now();
  const auto known = models_.find(model);
  if (known != models_.end() && now - known->second.when < max_age_) return known->second.model;
  try {
    Described described{ReadModel(server_, model), now};
    return models_.insert_or_assign(model, std::move(described)).first->second.model;
  } catch (const ApiError& error) {
    throw InnerError(InnerFailure(model, error.code(), error.what()));
  }
}

}  // namespace endcap::triton
