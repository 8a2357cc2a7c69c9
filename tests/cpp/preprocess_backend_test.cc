#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <span>
#include <utility>
#include <vector>

#include "allocation_counter.h"
#include "endcap/cuda.h"
#include "endcap/preprocess.h"
#include "fake_triton.h"
#include "image_tensor.h"
#include "jpeg_writer.h"

// The preprocess backend, on the CPU and on the emulated GPU, against the core on the CPU.

namespace endcap {
namespace {

using fake::Response;
using fake::Server;

[[maybe_unused]] const int library_chosen =
    setenv("ENDCAP_CUDA_LIBRARY", EMULATED_CUDA_LIBRARY, /*overwrite=*/1);
[[maybe_unused]] const int memory_chosen =
    setenv("ENDCAP_EMULATED_MEMORY_MB", "64", /*overwrite=*/1);

constexpr auto kCpu = TRITONSERVER_MEMORY_CPU;
constexpr auto kPinned = TRITONSERVER_MEMORY_CPU_PINNED;
constexpr auto kGpu = TRITONSERVER_MEMORY_GPU;
constexpr auto kOnGpu = TRITONSERVER_INSTANCEGROUPKIND_GPU;
constexpr auto kOnCpu = TRITONSERVER_INSTANCEGROUPKIND_CPU;
constexpr char kSpills[] = "endcap_preprocess_spills_total";

const std::map<std::string, std::string> kParameters{{"size", "24,32"}, {"threads", "1"}};
const std::vector<testing::Bytes> kFiles{testing::MakeJpeg(30, 50), testing::MakeJpeg(48, 20)};
const PreprocessParams kParams = ParsePreprocessParams({{"size", "24,32"}});

// The tensors of several images as one.
testing::Bytes Join(const std::vector<testing::Bytes>& tensors) {
  testing::Bytes all;
  for (const testing::Bytes& tensor : tensors) all.insert(all.end(), tensor.begin(), tensor.end());
  return all;
}

// `encoded` as a BYTES tensor, cut into `parts` buffers.
fake::Input Encoded(const std::vector<testing::Bytes>& files, TRITONSERVER_MemoryType type,
                    size_t parts = 1) {
  testing::Bytes all;
  for (const testing::Bytes& file : files) {
    for (int shift = 0; shift < 32; shift += 8) {
      all.push_back(static_cast<uint8_t>(file.size() >> shift));
    }
    all.insert(all.end(), file.begin(), file.end());
  }
  fake::Input input{
      "encoded", TRITONSERVER_TYPE_BYTES, {static_cast<int64_t>(files.size()), 1}, {}};
  const auto bytes = std::as_bytes(std::span(all));
  for (size_t i = 0; i < parts; ++i) {
    const size_t begin = bytes.size() * i / parts;
    const size_t end = bytes.size() * (i + 1) / parts;
    input.buffers.push_back(fake::Put(bytes.subspan(begin, end - begin), type));
  }
  return input;
}

fake::Request Wanting(std::vector<std::string> outputs, fake::Input input) {
  return {{std::move(input)}, std::move(outputs), {}};
}

void ExpectSame(const Response& response) {
  const testing::Results expected =
      testing::OnCpu(kParams, {testing::Encoded(kFiles[0]), testing::Encoded(kFiles[1])});
  ASSERT_EQ(response.error, "");
  EXPECT_EQ(response.outputs.at("images").Values<uint8_t>(), Join(expected.tensors));
  EXPECT_EQ((response.outputs.at("geometry").Values<std::array<float, 8>>()), expected.geometry);
  EXPECT_EQ(response.outputs.at("status").Values<int32_t>(), expected.status);
}

const std::vector<std::string> kAll{"images", "geometry", "status"};

TEST(GpuPreprocessBackend, LeavesImagesOnTheGpuAndTheRestOnTheHost) {
  Server server(kParameters, kOnGpu);
  const std::vector<Response> responses = server.Infer({Wanting(kAll, Encoded(kFiles, kCpu))});
  ExpectSame(responses[0]);
  EXPECT_EQ(responses[0].outputs.at("images").buffer.type, kGpu);
  EXPECT_EQ(responses[0].outputs.at("images").shape, (std::vector<int64_t>{2, 3, 24, 32}));
  EXPECT_EQ(responses[0].outputs.at("geometry").buffer.type, kCpu);
  EXPECT_EQ(responses[0].outputs.at("status").buffer.type, kCpu);
  EXPECT_EQ(Server::Counter(kSpills), 0);
  EXPECT_EQ(Server::Counter("endcap_preprocess_images_total"), 2);
}

TEST(GpuPreprocessBackend, FillsHostMemoryForAReaderThatWantsIt) {
  Server server(kParameters, kOnGpu);
  for (const auto type : {kCpu, kPinned}) {
    fake::Request request = Wanting(kAll, Encoded(kFiles, kCpu));
    request.policies["images"].promised = type;
    const Response response = server.Infer({request})[0];
    ExpectSame(response);
    EXPECT_EQ(response.outputs.at("images").requested, kGpu);
    EXPECT_NE(response.outputs.at("images").buffer.type, kGpu);
  }
  EXPECT_EQ(Server::Counter(kSpills), 0);
}

TEST(GpuPreprocessBackend, CountsSpills) {
  Server server(kParameters, kOnGpu);
  fake::Request spilled = Wanting(kAll, Encoded(kFiles, kCpu));
  spilled.policies["images"].provided = kPinned;
  const std::vector<Response> responses =
      server.Infer({spilled, Wanting(kAll, Encoded(kFiles, kCpu)), spilled});
  for (const Response& response : responses) ExpectSame(response);
  EXPECT_EQ(Server::Counter(kSpills), 2);
}

TEST(GpuPreprocessBackend, FillsGpuMemoryWithWhatTheHostMade) {
  for (const auto kind : {kOnGpu, kOnCpu}) {
    Server server(kParameters, kind);
    fake::Request request = Wanting(kAll, Encoded(kFiles, kCpu));
    for (const std::string& name : kAll) request.policies[name].promised = kGpu;
    const Response response = server.Infer({request})[0];
    ExpectSame(response);
    for (const std::string& name : kAll) EXPECT_EQ(response.outputs.at(name).buffer.type, kGpu);
  }
}

TEST(GpuPreprocessBackend, GathersFilesFromTheGpu) {
  for (const auto kind : {kOnGpu, kOnCpu}) {
    Server server(kParameters, kind);
    for (const size_t parts : {1, 3}) {
      ExpectSame(server.Infer({Wanting(kAll, Encoded(kFiles, kGpu, parts))})[0]);
    }
    fake::Request mixed = Wanting(kAll, Encoded(kFiles, kGpu, 2));
    mixed.inputs[0].buffers[0] = Encoded(kFiles, kCpu, 2).buffers[0];
    ExpectSame(server.Infer({mixed})[0]);
  }
}

TEST(GpuPreprocessBackend, ABadFileFailsItsOwnRequest) {
  Server server(kParameters, kOnGpu);
  const std::vector<testing::Bytes> bad{kFiles[0], {1, 2, 3}};
  const std::vector<Response> responses =
      server.Infer({Wanting(kAll, Encoded(bad, kCpu)), Wanting(kAll, Encoded(kFiles, kCpu))});
  EXPECT_TRUE(responses[0].error.starts_with("corrupt_image: image index 1 of 2"))
      << responses[0].error;
  ExpectSame(responses[1]);
}

TEST(GpuPreprocessBackend, WithoutGpuMemoryARequestFailsAndTheServerGoesOn) {
  Server server(kParameters, kOnGpu);
  fake::Request request = Wanting(kAll, Encoded(kFiles, kCpu));
  request.policies["images"].promised = kCpu;
  std::vector<std::shared_ptr<void>> all_of_it;
  for (size_t bytes = size_t{1} << 40; bytes >= 256;) {
    try {
      all_of_it.push_back(AllocateCuda(bytes, {}));
    } catch (const Error&) {
      bytes /= 2;
    }
  }
  const std::string error = server.Infer({request})[0].error;
  EXPECT_TRUE(error.starts_with("out_of_memory: ")) << error;
  all_of_it.clear();
  SynchronizeCuda({});
  ExpectSame(server.Infer({request})[0]);
}

TEST(GpuPreprocessBackend, MaxQueueCostIsForTheCpu) {
  std::map<std::string, std::string> parameters = kParameters;
  parameters["max_queue_cost"] = "50";
  try {
    const Server server(parameters, kOnGpu);
    FAIL() << "the model loaded";
  } catch (const std::runtime_error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("max_queue_cost is for instances on the CPU"), std::string::npos)
        << message;
  }
}

TEST(GpuPreprocessBackend, AGpuThatIsNotThereFailsTheLoadWithAMessage) {
  try {
    const Server server(kParameters, kOnGpu, 9);
    FAIL() << "the model loaded";
  } catch (const std::runtime_error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("cuda:9"), std::string::npos) << message;
    EXPECT_NE(message.find("KIND_CPU"), std::string::npos) << message;
  }
}

const std::vector<std::string> kRoisInputs{"encoded", "rois"};

fake::Request RoisRequest(const testing::Bytes& file, const std::vector<Roi>& rois,
                          TRITONSERVER_MemoryType type, std::vector<std::string> outputs = kAll) {
  fake::Request request = Wanting(std::move(outputs), Encoded({file}, type));
  request.inputs[0].shape = {1};
  request.inputs.push_back({"rois",
                            TRITONSERVER_TYPE_FP32,
                            {static_cast<int64_t>(rois.size()), 4},
                            {fake::Put(std::as_bytes(std::span(rois)), type)}});
  return request;
}

testing::Bytes RoisOnCpu(const testing::Bytes& file, const std::vector<Roi>& rois) {
  testing::Results results(rois.size());
  const std::vector<PreprocessOutput> outputs = results.Outputs(kParams);
  const std::array images = {PreprocessInput{testing::Encoded(file), rois, outputs}};
  EXPECT_TRUE(Preprocessor(kParams, 1).Run(images)[0].status.ok());
  return Join(results.tensors);
}

TEST(RoisBackend, SeveralRequestsInOneCallKeepApart) {
  const std::vector<Roi> two = {{1, 2, 30, 25}, {20, 20, 50, 30}};
  const std::vector<Roi> one = {{0, 0, 20, 48}};
  for (const auto kind : {kOnCpu, kOnGpu}) {
    Server server(kParameters, kind, 0, kRoisInputs);
    for (const auto type : {kCpu, kGpu}) {
      const std::vector<Response> responses = server.Infer(
          {RoisRequest(kFiles[0], two, type), RoisRequest({1, 2, 3}, one, type),
           RoisRequest(kFiles[1], {}, type), RoisRequest(kFiles[0], {{9, 9, 3, 3}}, type),
           RoisRequest(kFiles[1], one, type)});
      ASSERT_EQ(responses[0].error, "");
      EXPECT_EQ(responses[0].outputs.at("images").shape, (std::vector<int64_t>{2, 3, 24, 32}));
      if (kind == kOnGpu) {
        EXPECT_EQ(responses[0].outputs.at("images").requested, kGpu);
      }
      EXPECT_EQ(responses[0].outputs.at("geometry").shape, (std::vector<int64_t>{2, 8}));
      EXPECT_EQ(responses[0].outputs.at("status").Values<int32_t>(), (std::vector<int32_t>{0, 0}));
      EXPECT_EQ(responses[0].outputs.at("images").Values<uint8_t>(), RoisOnCpu(kFiles[0], two));
      EXPECT_TRUE(responses[1].error.starts_with("corrupt_image: ")) << responses[1].error;
      ASSERT_EQ(responses[2].error, "");
      EXPECT_EQ(responses[2].outputs.at("images").shape, (std::vector<int64_t>{0, 3, 24, 32}));
      EXPECT_TRUE(responses[3].error.starts_with("invalid_argument: roi index 0 of 1"))
          << responses[3].error;
      ASSERT_EQ(responses[4].error, "");
      EXPECT_EQ(responses[4].outputs.at("images").Values<uint8_t>(), RoisOnCpu(kFiles[1], one));
    }
  }
}

TEST(PreprocessBackend, TensorsThatNobodyWantsTakeNoMemory) {
  constexpr size_t kTensorBytes = size_t{3} * 640 * 640 * 4;
  Server images({}, kOnCpu);
  Server rois({}, kOnCpu, 0, kRoisInputs);
  const std::vector<Roi> regions(200, Roi{0, 0, 50, 30});
  const std::vector<testing::Bytes> file{kFiles[0]};
  using testing::largest_allocation;
  for (const std::vector<std::string>& outputs :
       {std::vector<std::string>{"geometry", "status"}, {"status"}}) {
    largest_allocation = 0;
    EXPECT_EQ(images.Infer({Wanting(outputs, Encoded(file, kCpu))})[0].error, "");
    EXPECT_EQ(rois.Infer({RoisRequest(kFiles[0], regions, kCpu, outputs)})[0].error, "");
    EXPECT_LT(largest_allocation, kTensorBytes / 4);
  }
  // The measure sees a tensor.
  EXPECT_EQ(images.Infer({Wanting(kAll, Encoded(file, kCpu))})[0].error, "");
  EXPECT_GE(largest_allocation, kTensorBytes);
}

}  // namespace
}  // namespace endcap
