#include "fake_inner_server.h"

#include <cstring>

#include "fake_inner_handles.h"

namespace endcap::fake {
namespace {

Block WriteOutput(const TRITONSERVER_InferenceRequest& request, const WrittenOutput& output) {
  Block block{output.name, output.shape, output.data_type};
  if (block.shape.empty()) block.shape = {static_cast<int64_t>(output.values.size())};
  block.bytes = output.values.size() * sizeof(int32_t);
  auto promised = output.wanted;
  int64_t promised_id = 0;
  request.allocator->query(request.allocator, request.allocator_userp, output.name.c_str(),
                           &block.bytes, &promised, &promised_id);
  request.allocator->allocate(request.allocator, output.name.c_str(), block.bytes, promised,
                              promised_id, request.allocator_userp, &block.data, &block.userp,
                              &block.memory_type, &block.memory_type_id);
  std::memcpy(block.data, output.values.data(), block.bytes);
  return block;
}

}  // namespace

TRITONSERVER_InferenceRequest*& Sent() {
  static TRITONSERVER_InferenceRequest* sent = nullptr;
  return sent;
}

InnerWorld& World() {
  static InnerWorld world;
  return world;
}

void Answer(const InnerAnswer& answer) {
  TRITONSERVER_InferenceRequest* sent = Sent();
  const uint32_t flags = answer.final ? TRITONSERVER_RESPONSE_COMPLETE_FINAL : 0;
  if (!answer.response) {
    sent->complete(nullptr, flags, sent->complete_userp);
    return;
  }
  auto* response = new TRITONSERVER_InferenceResponse{sent->allocator, nullptr, {}};
  ++World().responses;
  if (!answer.error.empty()) {
    response->error.reset(new TRITONSERVER_Error{TRITONSERVER_ERROR_UNSUPPORTED, answer.error});
  }
  for (const WrittenOutput& output : answer.outputs) {
    response->blocks.push_back(WriteOutput(*sent, output));
  }
  sent->complete(response, flags, sent->complete_userp);
}

void ReleaseSent() {
  Sent()->release(Sent(), TRITONSERVER_REQUEST_RELEASE_ALL, Sent()->release_userp);
}

}  // namespace endcap::fake
