// The preprocess backend for a request without tensors: the same status and geometry, and no
// memory for tensors. This program notes the largest operator new.

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "allocation_counter.h"
#include "endcap/preprocess.h"
#include "fake_triton.h"
#include "jpeg_writer.h"

namespace endcap {
namespace {

using fake::Response;
using fake::Server;
using testing::Bytes;
using testing::largest_allocation;
using testing::MakeJpeg;

[[maybe_unused]] const int library_chosen =
    setenv("ENDCAP_CUDA_LIBRARY", EMULATED_CUDA_LIBRARY, /*overwrite=*/1);

constexpr auto kCpu = TRITONSERVER_MEMORY_CPU;
constexpr auto kOnGpu = TRITONSERVER_INSTANCEGROUPKIND_GPU;
constexpr auto kOnCpu = TRITONSERVER_INSTANCEGROUPKIND_CPU;
constexpr size_t kTensorBytes = size_t{3} * 640 * 640 * 4;

std::vector<std::string> RoisInputs() { return {"encoded", "rois"}; }
std::vector<std::string> AllOutputs() { return {"images", "geometry", "status"}; }
std::vector<std::string> NoTensor() { return {"geometry", "status"}; }

fake::Input Input(const std::string& name, TRITONSERVER_DataType type, std::vector<int64_t> shape,
                  std::span<const std::byte> bytes) {
  return {name, type, std::move(shape), {fake::Put(bytes, kCpu)}};
}

fake::Input FileInput(const Bytes& file, bool batched) {
  Bytes encoded;
  for (int shift = 0; shift < 32; shift += 8) {
    encoded.push_back(static_cast<uint8_t>(file.size() >> shift));
  }
  encoded.insert(encoded.end(), file.begin(), file.end());
  std::vector<int64_t> shape{1};
  if (batched) shape.push_back(1);
  return Input("encoded", TRITONSERVER_TYPE_BYTES, shape, std::as_bytes(std::span(encoded)));
}

fake::Request ImageRequest(const Bytes& file, const std::vector<std::string>& outputs) {
  return {{FileInput(file, true)}, outputs, {}};
}

fake::Request RoisRequest(const Bytes& file, const std::vector<Roi>& rois,
                          const std::vector<std::string>& outputs) {
  return {{FileInput(file, false),
           Input("rois", TRITONSERVER_TYPE_FP32, {static_cast<int64_t>(rois.size()), 4},
                 std::as_bytes(std::span(rois)))},
          outputs,
          {}};
}

// Of two requests that differ in their outputs alone.
void ExpectSame(const Response& without, const Response& with) {
  EXPECT_EQ(without.error, with.error);
  EXPECT_FALSE(without.outputs.contains("images"));
  if (!with.error.empty()) return;
  for (const std::string& name : NoTensor()) {
    EXPECT_EQ(without.outputs.at(name).shape, with.outputs.at(name).shape);
    EXPECT_EQ(without.outputs.at(name).Values<int32_t>(), with.outputs.at(name).Values<int32_t>());
  }
}

Bytes Cut(const Bytes& file, size_t padding) {
  Bytes cut(file.begin(), file.begin() + static_cast<ptrdiff_t>(file.size() * 6 / 10));
  cut.resize(cut.size() + padding, 0);
  return cut;
}

std::vector<Bytes> Files() {
  const Bytes good = MakeJpeg(120, 160);
  return {good,
          MakeJpeg(120, 160, 3, {.orientation = 6}),
          MakeJpeg(120, 160, 3, {.progressive = true}),
          Cut(good, 0),
          Cut(good, 60000),
          {1, 2, 3}};
}

TEST(UnwantedTensors, OfImagesLeaveStatusAndGeometryAsTheyAre) {
  for (const auto kind : {kOnCpu, kOnGpu}) {
    for (const std::string on_error : {"error", "blank"}) {
      for (const std::string fit : {"letterbox", "center_crop"}) {
        Server server({{"size", "24,24"}, {"on_error", on_error}, {"fit", fit}}, kind);
        for (const Bytes& file : Files()) {
          const auto responses =
              server.Infer({ImageRequest(file, NoTensor()), ImageRequest(file, AllOutputs())});
          ExpectSame(responses[0], responses[1]);
        }
      }
    }
  }
}

TEST(UnwantedTensors, OfRegionsLeaveStatusAndGeometryAsTheyAre) {
  const std::vector<std::vector<Roi>> choices = {
      {{1, 2, 60, 20}}, {{1, 2, 60, 20}, {9, 9, 3, 3}, {0, 0, 120, 120}}, {}};
  for (const auto kind : {kOnCpu, kOnGpu}) {
    for (const std::string on_error : {"error", "blank"}) {
      Server server({{"size", "24,32"}, {"on_error", on_error}}, kind, 0, RoisInputs());
      for (const Bytes& file : Files()) {
        for (const auto& rois : choices) {
          const auto responses = server.Infer(
              {RoisRequest(file, rois, NoTensor()), RoisRequest(file, rois, AllOutputs())});
          ExpectSame(responses[0], responses[1]);
        }
      }
    }
  }
}

TEST(UnwantedTensors, TakeNoMemory) {
  const Bytes file = MakeJpeg(120, 160);
  Server images({}, kOnCpu);
  Server rois({}, kOnCpu, 0, RoisInputs());
  const std::vector<Roi> regions(200, Roi{0, 0, 160, 120});
  for (const std::vector<std::string>& outputs : {NoTensor(), std::vector<std::string>{"status"}}) {
    largest_allocation = 0;
    EXPECT_EQ(images.Infer({ImageRequest(file, outputs)})[0].error, "");
    EXPECT_LT(largest_allocation, kTensorBytes / 4);
    EXPECT_EQ(rois.Infer({RoisRequest(file, regions, outputs)})[0].error, "");
    EXPECT_LT(largest_allocation, kTensorBytes / 4);
  }
  // The measure sees a tensor.
  EXPECT_EQ(images.Infer({ImageRequest(file, AllOutputs())})[0].error, "");
  EXPECT_GE(largest_allocation, kTensorBytes);
}

TEST(UnwantedTensors, RegionsOfTooManyBytesAreRefusedAllTheSame) {
  const Bytes file = MakeJpeg(120, 160);
  Server server({{"max_roi_bytes", "9830400"}}, kOnCpu, 0, RoisInputs());
  const std::vector<Roi> three(3, Roi{0, 0, 160, 120});
  for (const std::vector<std::string>& outputs : {NoTensor(), AllOutputs()}) {
    const Response response = server.Infer({RoisRequest(file, three, outputs)})[0];
    EXPECT_EQ(response.error,
              "invalid_argument: the tensors of 3 rois take 14745600 bytes; max_roi_bytes allows "
              "9830400: give them in several calls, or a greater max_roi_bytes");
    EXPECT_EQ(response.error_code, TRITONSERVER_ERROR_INVALID_ARG);
  }
}

}  // namespace
}  // namespace endcap
