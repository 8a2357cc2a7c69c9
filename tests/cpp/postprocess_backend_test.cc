#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "fake_triton.h"

// The postprocess backend on a GPU, which is the emulated one, against the same on the CPU.

namespace endcap {
namespace {

using fake::Response;
using fake::Server;

[[maybe_unused]] const int library_chosen =
    setenv("ENDCAP_CUDA_LIBRARY", EMULATED_CUDA_LIBRARY, /*overwrite=*/1);

constexpr auto kCpu = TRITONSERVER_MEMORY_CPU;
constexpr auto kPinned = TRITONSERVER_MEMORY_CPU_PINNED;
constexpr auto kGpu = TRITONSERVER_MEMORY_GPU;
constexpr auto kOnGpu = TRITONSERVER_INSTANCEGROUPKIND_GPU;
constexpr auto kOnCpu = TRITONSERVER_INSTANCEGROUPKIND_CPU;
constexpr int64_t kImages = 2;
constexpr int64_t kAnchors = 40;

const std::map<std::string, std::string> kYolov8{
    {"head", "yolov8"}, {"num_classes", "3"}, {"max_detections", "10"}, {"threads", "1"}};
const std::map<std::string, std::string> kClassification{
    {"head", "classification"}, {"num_classes", "5"}, {"top_k", "2"}, {"threads", "1"}};
const std::vector<std::string> kDetections{"num_detections",    "detection_boxes",
                                           "detection_scores",  "detection_classes",
                                           "detection_indices", "status"};

template <typename T>
fake::Input Tensor(const std::string& name, TRITONSERVER_DataType type, std::vector<int64_t> shape,
                   const std::vector<T>& values, TRITONSERVER_MemoryType place) {
  return {name, type, std::move(shape), {fake::Put(std::as_bytes(std::span(values)), place)}};
}

fake::Input Head(TRITONSERVER_MemoryType place, float spoilt = 0) {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> unit(0.01F, 1.0F);
  std::vector<float> head(kImages * 7 * kAnchors);
  for (size_t i = 0; i < head.size(); ++i) {
    const size_t row = i / kAnchors % 7;
    head[i] = unit(random) * (row < 4 ? 600.0F : 1.0F);
  }
  if (spoilt != 0) head[9] = spoilt;
  return Tensor("head", TRITONSERVER_TYPE_FP32, {kImages, 7, kAnchors}, head, place);
}

fake::Input Geometry(TRITONSERVER_MemoryType place) {
  const std::vector<float> rows{0.5F, 0.6F, 3, 2, 900, 1000, 1, 0, 1, 1, 0, 0, 640, 640, 1, 1};
  return Tensor("geometry", TRITONSERVER_TYPE_FP32, {kImages, 8}, rows, place);
}

fake::Input Status(TRITONSERVER_MemoryType place) {
  return Tensor("status", TRITONSERVER_TYPE_INT32, {kImages, 1}, std::vector<int32_t>{0, 1}, place);
}

fake::Input Logits(TRITONSERVER_MemoryType place) {
  const std::vector<float> logits{0, 3, 1, -1, 2, 5, 1, 0, 4, 2};
  return Tensor("logits", TRITONSERVER_TYPE_FP32, {kImages, 5}, logits, place);
}

Response OnCpu(const std::map<std::string, std::string>& parameters, fake::Request request) {
  Server server(parameters, kOnCpu);
  request.policies.clear();
  return server.Infer({request})[0];
}

void ExpectSame(const Response& response, const Response& expected) {
  ASSERT_EQ(response.error, "");
  ASSERT_EQ(expected.error, "");
  ASSERT_EQ(response.outputs.size(), expected.outputs.size());
  for (const auto& [name, output] : expected.outputs) {
    EXPECT_EQ(response.outputs.at(name).shape, output.shape) << name;
    EXPECT_EQ(response.outputs.at(name).Values<uint8_t>(), output.Values<uint8_t>()) << name;
  }
}

TEST(GpuPostprocessBackend, RespondsAsTheCpuWhereverTheInputsLie) {
  const Response expected = OnCpu(kYolov8, {{Head(kCpu), Geometry(kCpu)}, kDetections, {}});
  EXPECT_GT(expected.outputs.at("num_detections").Values<int32_t>()[0], 0);
  Server server(kYolov8, kOnGpu);
  for (const auto head : {kCpu, kGpu}) {
    for (const auto geometry : {kCpu, kGpu}) {
      const fake::Request request{{Head(head), Geometry(geometry)}, kDetections, {}};
      const Response response = server.Infer({request})[0];
      ExpectSame(response, expected);
      EXPECT_EQ(response.outputs.at("detection_boxes").requested, kPinned);
      EXPECT_EQ(response.outputs.at("detection_boxes").buffer.type, kPinned);
    }
  }
  EXPECT_EQ(Server::Counter("endcap_postprocess_spills_total"), 0);
  EXPECT_EQ(Server::Counter("endcap_postprocess_images_total"), 4 * kImages);
}

TEST(GpuPostprocessBackend, FillsTheGpuMemoryOfAReaderThatHasIt) {
  fake::Request request{{Head(kGpu), Geometry(kGpu)}, kDetections, {}};
  const Response expected = OnCpu(kYolov8, request);
  request.policies["detection_boxes"].promised = kGpu;
  request.policies["num_detections"].promised = kGpu;
  request.policies["detection_scores"].promised = kCpu;
  for (const auto kind : {kOnGpu, kOnCpu}) {
    Server server(kYolov8, kind);
    const std::vector<Response> responses = server.Infer({request, request});
    for (const Response& response : responses) {
      ExpectSame(response, expected);
      EXPECT_EQ(response.outputs.at("detection_boxes").buffer.type, kGpu);
      EXPECT_EQ(response.outputs.at("detection_scores").buffer.type, kCpu);
    }
  }
}

TEST(GpuPostprocessBackend, AHeadInSeveralBuffersIsGathered) {
  fake::Request request{{Head(kGpu), Geometry(kGpu)}, kDetections, {}};
  const Response expected = OnCpu(kYolov8, request);
  const std::vector<float> values = fake::Output{{}, request.inputs[0].buffers[0]}.Values<float>();
  const auto bytes = std::as_bytes(std::span(values));
  request.inputs[0].buffers = {fake::Put(bytes.first(1001), kGpu),
                               fake::Put(bytes.subspan(1001), kCpu)};
  ExpectSame(Server(kYolov8, kOnGpu).Infer({request})[0], expected);
}

TEST(GpuPostprocessBackend, StatusFromTheGpuBlanksItsImage) {
  const fake::Request request{{Head(kGpu), Geometry(kCpu), Status(kGpu)}, kDetections, {}};
  const Response expected = OnCpu(kYolov8, request);
  EXPECT_EQ(expected.outputs.at("num_detections").Values<int32_t>()[1], 0);
  ExpectSame(Server(kYolov8, kOnGpu).Infer({request})[0], expected);
}

TEST(GpuPostprocessBackend, ABadHeadFailsItsOwnRequest) {
  const fake::Request good{{Head(kGpu), Geometry(kGpu)}, kDetections, {}};
  const fake::Request bad{{Head(kGpu, NAN), Geometry(kGpu)}, kDetections, {}};
  const Response expected = OnCpu(kYolov8, good);
  const std::string message = OnCpu(kYolov8, bad).error;
  Server server(kYolov8, kOnGpu);
  const std::vector<Response> responses = server.Infer({good, bad, good});
  ExpectSame(responses[0], expected);
  EXPECT_EQ(responses[1].error, message);
  EXPECT_NE(message.find("NaN"), std::string::npos);
  ExpectSame(responses[2], expected);
}

TEST(GpuPostprocessBackend, LabelsFollowFromIdsOnTheGpu) {
  fake::Request request{
      {Logits(kGpu)}, {"class_scores", "class_ids", "class_labels", "class_probabilities"}, {}};
  const Response expected = OnCpu(kClassification, request);
  Server server(kClassification, kOnGpu);
  ExpectSame(server.Infer({request})[0], expected);
  request.policies["class_ids"].promised = kGpu;
  request.policies["class_labels"].provided = kGpu;
  ExpectSame(server.Infer({request})[0], expected);
  // Without the ids in the response.
  request.outputs = {"class_labels"};
  ExpectSame(server.Infer({request})[0], OnCpu(kClassification, request));
}

// Two detections with masks, of prototypes of size x size for an input four times as large.
std::map<std::string, std::string> MaskParameters(int size, const std::string& max_detections) {
  const auto square = [](int side) { return std::to_string(side) + "," + std::to_string(side); };
  return {{"head", "yolov8_seg"},
          {"num_classes", "1"},
          {"mask_coefficients", "2"},
          {"prototype_size", square(size)},
          {"input_size", square(4 * size)},
          {"mask_resolution", "input"},
          {"max_detections", max_detections}};
}

std::vector<fake::Input> MaskInputs(int size) {
  const std::vector<float> head = {16, 8, 16, 8, 20, 10, 20, 10, 0.9F, 0.8F, 1, -1, 0.5F, 1};
  std::vector<float> prototypes;
  for (int i = 0; i < 2 * size * size; ++i) {
    prototypes.push_back(static_cast<float>(i * 7 % 11) - 5.0F);
  }
  return {Tensor("head", TRITONSERVER_TYPE_FP32, {1, 7, 2}, head, kGpu),
          Tensor("protos", TRITONSERVER_TYPE_FP32, {1, 2, size, size}, prototypes, kGpu)};
}

TEST(GpuPostprocessBackend, MasksRespondAsOnTheCpu) {
  auto parameters = MaskParameters(8, "2");
  fake::Request request{MaskInputs(8), {"num_detections", "mask_size", "detection_masks"}, {}};
  const Response packed = OnCpu(parameters, request);
  EXPECT_EQ(packed.outputs.at("num_detections").Values<int32_t>()[0], 2);
  EXPECT_EQ(packed.outputs.at("mask_size").Values<int32_t>(), (std::vector<int32_t>{32, 32}));
  fake::Request both_forms = request;
  both_forms.outputs.push_back("detection_rle");
  const Response all = OnCpu(parameters, both_forms);
  EXPECT_GT(all.outputs.at("detection_rle").buffer.bytes, 30U);
  Server server(parameters, kOnGpu);
  const std::vector<Response> responses = server.Infer({both_forms, request});
  ExpectSame(responses[0], all);
  ExpectSame(responses[1], packed);

  parameters["mask_resolution"] = "source";
  request.outputs = {"mask_size", "detection_rle"};
  ExpectSame(Server(parameters, kOnGpu).Infer({request})[0], OnCpu(parameters, request));
}

// A function of the emulation, by its name in the library.
template <typename Function>
Function* Emulated(const char* name) {
  void* library = dlopen(EMULATED_CUDA_LIBRARY, RTLD_NOW | RTLD_NOLOAD);
  return reinterpret_cast<Function*>(dlsym(library, name));
}

// Which outputs are requested, and in which host memory they end.
TEST(GpuPostprocessBackend, TheHostWaitsAsOftenForAllOutputsAsForOne) {
  const auto parameters = MaskParameters(64, "200");
  const std::vector<fake::Input> inputs = MaskInputs(64);
  const std::vector<std::string> all = {
      "num_detections",    "detection_boxes", "detection_scores", "detection_classes",
      "detection_indices", "mask_size",       "detection_masks",  "status"};
  Server server(parameters, kOnGpu);
  const auto waits_for = [&](const std::vector<std::string>& outputs, auto memory) {
    fake::Request request{inputs, outputs, {}};
    for (const std::string& name : outputs) request.policies[name].promised = memory;
    const auto waits = Emulated<int()>("EndcapEmulatedWaits");
    const int before = waits();
    const Response response = server.Infer({request})[0];
    const int after = waits();
    ExpectSame(response, OnCpu(parameters, request));
    EXPECT_EQ(response.outputs.at(outputs.back()).buffer.type, memory);
    return after - before;
  };
  const int for_one = waits_for({"num_detections"}, kCpu);
  EXPECT_EQ(waits_for(all, kCpu), for_one);
  EXPECT_EQ(waits_for(all, kPinned), for_one);
  EXPECT_EQ(waits_for({"detection_masks", "detection_boxes"}, kCpu), for_one);
}

// Last: the fault is remembered for the process.
TEST(GpuPostprocessBackendFault, AnInstanceIsNotReadyAfterAnUnrecoverableError) {
  const fake::Request request{{Head(kCpu), Geometry(kCpu)}, kDetections, {}};
  Server server(kYolov8, kOnGpu);
  EXPECT_EQ(server.Infer({request})[0].error, "");
  EXPECT_EQ(server.GetReadinessError(), "");
  constexpr int kIllegalAddress = 700;
  Emulated<void(int)>("EndcapEmulateFault")(kIllegalAddress);
  // Before any request has met the error.
  EXPECT_NE(server.GetReadinessError().find("restart"), std::string::npos);
  const Response failed = server.Infer({request})[0];
  EXPECT_NE(failed.error.find("this process can no longer use CUDA: restart it"),
            std::string::npos);
  EXPECT_EQ(failed.error_code, TRITONSERVER_ERROR_UNAVAILABLE);
  EXPECT_EQ(Server(kYolov8, kOnCpu).GetReadinessError(), "");
  Emulated<void(int)>("EndcapEmulateFault")(0);
  EXPECT_NE(server.GetReadinessError().find("restart the server"), std::string::npos);
}

}  // namespace
}  // namespace endcap
