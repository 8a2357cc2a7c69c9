#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "endcap/preprocess.h"
#include "fake_triton.h"
#include "image_tensor.h"
#include "jpeg_writer.h"

// The preprocess backend with an input `rois`: several requests in one call, and memory of a GPU,
// which is the emulated one.

namespace endcap {
namespace {

using fake::Response;
using fake::Server;

[[maybe_unused]] const int library_chosen =
    setenv("ENDCAP_CUDA_LIBRARY", EMULATED_CUDA_LIBRARY, /*overwrite=*/1);

constexpr auto kCpu = TRITONSERVER_MEMORY_CPU;
constexpr auto kGpu = TRITONSERVER_MEMORY_GPU;
constexpr auto kOnGpu = TRITONSERVER_INSTANCEGROUPKIND_GPU;
constexpr auto kOnCpu = TRITONSERVER_INSTANCEGROUPKIND_CPU;

const std::map<std::string, std::string> kParameters{{"size", "24,32"}};
const std::vector<std::string> kInputs{"encoded", "rois"};
const std::vector<std::string> kAll{"images", "geometry", "status"};
constexpr size_t kTensor = size_t{3} * 24 * 32;

fake::Request MakeRequest(const testing::Bytes& file, const std::vector<Roi>& rois,
                          TRITONSERVER_MemoryType type) {
  testing::Bytes encoded;
  for (int shift = 0; shift < 32; shift += 8) {
    encoded.push_back(static_cast<uint8_t>(file.size() >> shift));
  }
  encoded.insert(encoded.end(), file.begin(), file.end());
  const auto put = [type](std::span<const std::byte> bytes) {
    return std::vector{fake::Put(bytes, type)};
  };
  return {{{"encoded", TRITONSERVER_TYPE_BYTES, {1}, put(std::as_bytes(std::span(encoded)))},
           {"rois",
            TRITONSERVER_TYPE_FP32,
            {static_cast<int64_t>(rois.size()), 4},
            put(std::as_bytes(std::span(rois)))}},
          kAll,
          {}};
}

std::vector<float> Expected(const testing::Bytes& file, const std::vector<Roi>& rois) {
  const PreprocessParams params = ParsePreprocessParams({{"size", "24,32"}});
  std::vector<float> tensors(kTensor * rois.size());
  std::vector<PreprocessOutput> outputs;
  outputs.reserve(rois.size());
  for (size_t i = 0; i < rois.size(); ++i) {
    outputs.push_back({testing::ImageTensor(params, tensors.data() + kTensor * i)});
  }
  const std::array images = {PreprocessInput{testing::Encoded(file), rois, outputs}};
  EXPECT_TRUE(Preprocessor(params, 1).Run(images)[0].status.ok());
  return tensors;
}

TEST(RoisBackend, SeveralRequestsInOneCallKeepApart) {
  const testing::Bytes first = testing::MakeJpeg(60, 80);
  const testing::Bytes second = testing::MakeJpeg(50, 40);
  const std::vector<Roi> two = {{1, 2, 30, 40}, {20, 20, 80, 60}};
  const std::vector<Roi> one = {{0, 0, 40, 50}};
  Server on_cpu(kParameters, kOnCpu, 0, kInputs);
  Server on_gpu(kParameters, kOnGpu, 0, kInputs);
  for (const auto& [where, type] :
       {std::pair{&on_cpu, kCpu}, {&on_cpu, kGpu}, {&on_gpu, kCpu}, {&on_gpu, kGpu}}) {
    Server& server = *where;
    const std::vector<Response> responses =
        server.Infer({MakeRequest(first, two, type), MakeRequest({1, 2, 3}, one, type),
                      MakeRequest(second, {}, type), MakeRequest(first, {{9, 9, 3, 3}}, type),
                      MakeRequest(second, one, type)});
    ASSERT_EQ(responses[0].error, "");
    EXPECT_EQ(responses[0].outputs.at("images").shape, (std::vector<int64_t>{2, 3, 24, 32}));
    EXPECT_EQ(responses[0].outputs.at("geometry").shape, (std::vector<int64_t>{2, 8}));
    EXPECT_EQ(responses[0].outputs.at("status").Values<int32_t>(), (std::vector<int32_t>{0, 0}));
    EXPECT_EQ(responses[0].outputs.at("images").Values<float>(), Expected(first, two));
    EXPECT_TRUE(responses[1].error.starts_with("corrupt_image: ")) << responses[1].error;
    ASSERT_EQ(responses[2].error, "");
    EXPECT_EQ(responses[2].outputs.at("images").shape, (std::vector<int64_t>{0, 3, 24, 32}));
    EXPECT_TRUE(responses[3].error.starts_with("invalid_argument: roi index 0 of 1"))
        << responses[3].error;
    ASSERT_EQ(responses[4].error, "");
    EXPECT_EQ(responses[4].outputs.at("images").Values<float>(), Expected(second, one));
  }
}

TEST(RoisBackend, TensorsStayOnTheGpu) {
  const testing::Bytes file = testing::MakeJpeg(60, 80);
  Server server(kParameters, kOnGpu, 0, kInputs);
  const Response response = server.Infer({MakeRequest(file, {{1, 2, 30, 40}}, kCpu)})[0];
  ASSERT_EQ(response.error, "");
  EXPECT_EQ(response.outputs.at("images").requested, kGpu);
  EXPECT_EQ(response.outputs.at("geometry").requested, kCpu);
}

}  // namespace
}  // namespace endcap
