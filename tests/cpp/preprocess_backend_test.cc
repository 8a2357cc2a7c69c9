#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "endcap/cuda.h"
#include "endcap/preprocess.h"
#include "fake_triton.h"
#include "jpeg_writer.h"

// The preprocess backend on a GPU, which is the emulated one, against the core on the CPU.

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

struct Expected {
  std::vector<float> images;
  std::vector<float> geometry;
  std::vector<int32_t> status;
};

Expected OnCpu() {
  const PreprocessParams params = ParsePreprocessParams({{"size", "24,32"}});
  const TensorSpec spec = PreprocessOutputs(params)[0];
  const size_t item = 3 * 24 * 32;
  Expected expected{std::vector<float>(2 * item), std::vector<float>(16), {9, 9}};
  std::vector<ImageView> views;
  std::vector<PreprocessOutput> outputs;
  for (size_t i = 0; i < 2; ++i) {
    views.push_back(ImageView::Encoded(kFiles[i].data(), kFiles[i].size()));
    TensorView image;
    image.data = expected.images.data() + i * item;
    image.shape = spec.shape;
    image.rank = spec.rank;
    outputs.push_back(
        {image, expected.geometry.data() + i * 8, &expected.status[i], static_cast<int>(i)});
  }
  Preprocessor(params, 1).Run(views, outputs);
  return expected;
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
  const Expected expected = OnCpu();
  ASSERT_EQ(response.error, "");
  EXPECT_EQ(response.outputs.at("images").Values<float>(), expected.images);
  EXPECT_EQ(response.outputs.at("geometry").Values<float>(), expected.geometry);
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

TEST(GpuPreprocessBackend, ImagesThatNobodyWantsAreStillDecoded) {
  Server server(kParameters, kOnGpu);
  const Response response = server.Infer({Wanting({"geometry"}, Encoded(kFiles, kCpu))})[0];
  ASSERT_EQ(response.error, "");
  EXPECT_EQ(response.outputs.size(), 1U);
  EXPECT_EQ(response.outputs.at("geometry").Values<float>(), OnCpu().geometry);
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

}  // namespace
}  // namespace endcap
