// Model configurations of the preprocessing backend: loaded, or refused with a message; what
// auto-completion makes of one is accepted as it is.

#include <nlohmann/json.hpp>

#include "agreement.h"
#include "endcap/preprocess.h"
#include "fake_triton_handles.h"
#include "triton_util/triton_api.h"

namespace endcap::fuzz {
namespace {

using Json = nlohmann::json;

constexpr std::array kNames = {"encoded", "rois", "images", "geometry", "status", "other"};
constexpr std::array kTypes = {"TYPE_STRING", "TYPE_UINT8", "TYPE_FP32",   "TYPE_FP16",
                               "TYPE_INT32",  "TYPE_INT8",  "TYPE_INVALID"};

Json PickDims(FuzzInput& input) {
  Json dims = Json::array();
  const int rank = input.Int(0, 4);
  for (int i = 0; i < rank; ++i) {
    dims.push_back(input.Happens(16) ? input.Integer(INT64_MIN, INT64_MAX)
                                     : input.Pick(std::array<int64_t, 6>{-1, 1, 3, 4, 8, 640}));
  }
  return dims;
}

Json PickTensors(FuzzInput& input) {
  Json list = Json::array();
  const int count = input.Int(0, 3);
  for (int i = 0; i < count; ++i) {
    Json entry{{"name", input.Pick(kNames)}};
    if (input.Bool()) entry["data_type"] = input.Pick(kTypes);
    if (input.Bool()) entry["dims"] = PickDims(input);
    if (input.Happens(32)) entry["reshape"] = {{"shape", PickDims(input)}};
    if (input.Happens(16)) entry["label_filename"] = input.Text();
    list.push_back(entry);
  }
  return list;
}

Json PickParameters(FuzzInput& input) {
  static const std::vector<ParameterInfo> table = DescribePreprocessParams({});
  Json parameters = Json::object();
  const int count = input.Int(0, 4);
  for (int i = 0; i < count; ++i) {
    const ParameterInfo& row = table[input.Size(table.size() - 1)];
    std::string name(row.name);
    if (input.Happens(32)) name = "preset";
    if (input.Happens(32)) name = "threads";
    if (input.Happens(8)) name = "p" + std::to_string(input.Byte());
    // The size is kept small: it is memory.
    const std::string value = input.Bool() ? row.value : std::to_string(input.Integer(-1, 64));
    parameters[name] = {{"string_value", value}};
  }
  return parameters;
}

TRITONBACKEND_Backend StartBackend() {
  TRITONBACKEND_Backend backend;
  Require(TRITONBACKEND_Initialize(&backend) == nullptr, "the backend does not start");
  return backend;
}

// The error's message; empty where the model loads.
std::string Load(std::string& config) {
  static TRITONBACKEND_Backend backend = StartBackend();
  TRITONBACKEND_Model model{&backend, config};
  TRITONSERVER_Error* error = TRITONBACKEND_ModelInitialize(&model);
  std::string message;
  if (error != nullptr) {
    message = error->message;
    Require(!message.empty(), "an error without a message");
    Require(error->code != TRITONSERVER_ERROR_INTERNAL, "an internal error: ", message);
  }
  delete error;
  if (model.state != nullptr) delete TRITONBACKEND_ModelFinalize(&model);
  config = model.config;
  return message;
}

}  // namespace
}  // namespace endcap::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace endcap::fuzz;
  FuzzInput input(data, size);
  Json config{{"max_batch_size", input.Int(0, 8)}};
  if (input.Bool()) config["input"] = PickTensors(input);
  if (input.Bool()) config["output"] = PickTensors(input);
  config["parameters"] = PickParameters(input);
  std::string text = config.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (!Load(text).empty()) return 0;
  std::string again = text;
  const std::string message = Load(again);
  Require(message.empty(), "a completed config is refused: ", message);
  Require(again == text, "a completed config is completed once more");
  return 0;
}
