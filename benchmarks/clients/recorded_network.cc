// A Triton backend that stands for a network and costs nothing: it returns the head that the sample
// detector gave for one image. So what is left of a request's time is that of its way.
//
//   images  float32 [N,3,640,640], the tensor of that image; another one is an error
//   head    float32 [N,10,8400], as recorded
//
// recorded.bin in the version folder: uint32 fingerprint of the tensor, then the head. One number
// of each page of a tensor is looked at, which proves that it came and takes no time to speak of. A
// tensor in a GPU's memory is not looked at.

#include <cstdint>
#include <exception>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>

#include "triton_util/triton_api.h"

namespace {

constexpr std::size_t kTensorValues = 3 * 640 * 640;
constexpr std::size_t kPageValues = 1024;
constexpr int64_t kHeadShape[] = {10, 8400};
constexpr std::size_t kHeadBytes = sizeof(float) * 10 * 8400;

struct Recorded {
  uint32_t fingerprint;
  std::string head;
};

void Check(TRITONSERVER_Error* error) {
  if (error == nullptr) return;
  const std::string message = TRITONSERVER_ErrorMessage(error);
  TRITONSERVER_ErrorDelete(error);
  throw std::runtime_error(message);
}

// What a function of the C API returns.
template <typename Body>
TRITONSERVER_Error* Guard(Body body) {
  try {
    body();
    return nullptr;
  } catch (const std::exception& error) {
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG, error.what());
  }
}

std::unique_ptr<Recorded> ReadRecorded(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  auto recorded = std::make_unique<Recorded>();
  recorded->head.resize(kHeadBytes);
  file.read(reinterpret_cast<char*>(&recorded->fingerprint), sizeof(uint32_t));
  file.read(recorded->head.data(), static_cast<std::streamsize>(kHeadBytes));
  if (!file) throw std::runtime_error(path + " is missing or too short");
  return recorded;
}

uint32_t Fingerprint(const uint32_t* values) {
  uint32_t sum = 0;
  for (std::size_t at = 0; at < kTensorValues; at += kPageValues) sum += values[at];
  return sum;
}

// The tensor in one piece: over HTTP it may come in several, which a network would gather, too.
const char* InOnePiece(TRITONBACKEND_Input* input, uint32_t buffers, std::string& gathered,
                       TRITONSERVER_MemoryType& place) {
  const void* buffer = nullptr;
  for (uint32_t index = 0; index < buffers; ++index) {
    uint64_t size = 0;
    int64_t device = 0;
    place = TRITONSERVER_MEMORY_CPU;
    Check(TRITONBACKEND_InputBuffer(input, index, &buffer, &size, &place, &device));
    if (buffers > 1) gathered.append(static_cast<const char*>(buffer), size);
  }
  return buffers > 1 ? gathered.data() : static_cast<const char*>(buffer);
}

int64_t CheckedBatch(const Recorded& recorded, TRITONBACKEND_Request* request) {
  TRITONBACKEND_Input* input = nullptr;
  Check(TRITONBACKEND_RequestInputByIndex(request, 0, &input));
  const char* name = nullptr;
  TRITONSERVER_DataType type = TRITONSERVER_TYPE_INVALID;
  const int64_t* shape = nullptr;
  uint32_t rank = 0;
  uint32_t buffers = 0;
  uint64_t size = 0;
  Check(TRITONBACKEND_InputProperties(input, &name, &type, &shape, &rank, &size, &buffers));
  std::string gathered;
  TRITONSERVER_MemoryType place = TRITONSERVER_MEMORY_CPU;
  const char* bytes = InOnePiece(input, buffers, gathered, place);
  if (place == TRITONSERVER_MEMORY_GPU) return shape[0];
  const auto* values = reinterpret_cast<const uint32_t*>(bytes);
  for (int64_t row = 0; row < shape[0]; ++row) {
    if (Fingerprint(values + row * kTensorValues) != recorded.fingerprint) {
      throw std::runtime_error("the tensor is not the one whose head was recorded");
    }
  }
  return shape[0];
}

void Respond(const Recorded& recorded, TRITONBACKEND_Request* request,
             TRITONBACKEND_Response* response) {
  const int64_t batch = CheckedBatch(recorded, request);
  const int64_t shape[] = {batch, kHeadShape[0], kHeadShape[1]};
  TRITONBACKEND_Output* output = nullptr;
  Check(TRITONBACKEND_ResponseOutput(response, &output, "head", TRITONSERVER_TYPE_FP32, shape, 3));
  void* buffer = nullptr;
  TRITONSERVER_MemoryType place = TRITONSERVER_MEMORY_CPU;
  int64_t device = 0;
  const std::size_t bytes = kHeadBytes * static_cast<std::size_t>(batch);
  Check(TRITONBACKEND_OutputBuffer(output, &buffer, bytes, &place, &device));
  if (place == TRITONSERVER_MEMORY_GPU) throw std::runtime_error("the head was wanted on a GPU");
  for (int64_t row = 0; row < batch; ++row) {
    recorded.head.copy(static_cast<char*>(buffer) + row * kHeadBytes, kHeadBytes);
  }
}

void Serve(const Recorded& recorded, TRITONBACKEND_Request* request) {
  TRITONBACKEND_Response* response = nullptr;
  TRITONSERVER_Error* error = TRITONBACKEND_ResponseNew(&response, request);
  if (error == nullptr) {
    error = Guard([&] { Respond(recorded, request, response); });
    TRITONSERVER_Error* sent =
        TRITONBACKEND_ResponseSend(response, TRITONSERVER_RESPONSE_COMPLETE_FINAL, error);
    if (sent != nullptr) TRITONSERVER_ErrorDelete(sent);
  }
  if (error != nullptr) TRITONSERVER_ErrorDelete(error);
  TRITONSERVER_Error* released =
      TRITONBACKEND_RequestRelease(request, TRITONSERVER_REQUEST_RELEASE_ALL);
  if (released != nullptr) TRITONSERVER_ErrorDelete(released);
}

const Recorded& RecordedOf(TRITONBACKEND_Model* model) {
  void* state = nullptr;
  Check(TRITONBACKEND_ModelState(model, &state));
  return *static_cast<const Recorded*>(state);
}

}  // namespace

extern "C" {

TRITONSERVER_Error* TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model* model) {
  return Guard([&] {
    TRITONBACKEND_ArtifactType type = TRITONBACKEND_ARTIFACT_FILESYSTEM;
    const char* folder = nullptr;
    Check(TRITONBACKEND_ModelRepository(model, &type, &folder));
    auto recorded = ReadRecorded(std::string(folder) + "/1/recorded.bin");
    Check(TRITONBACKEND_ModelSetState(model, recorded.get()));
    static_cast<void>(recorded.release());
  });
}

TRITONSERVER_Error* TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model* model) {
  return Guard([&] { delete &RecordedOf(model); });
}

TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance* instance,
                                                       TRITONBACKEND_Request** requests,
                                                       uint32_t count) {
  return Guard([&] {
    TRITONBACKEND_Model* model = nullptr;
    Check(TRITONBACKEND_ModelInstanceModel(instance, &model));
    const Recorded& recorded = RecordedOf(model);
    for (uint32_t index = 0; index < count; ++index) Serve(recorded, requests[index]);
  });
}

}  // extern "C"
