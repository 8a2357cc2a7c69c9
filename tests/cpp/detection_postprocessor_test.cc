// Postprocessor on a GPU: memory, streams and errors. tests/fuzz/heads.cc compares what the kernels
// compute.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <limits>

#include "cuda/runtime.h"
#include "endcap/postprocess.h"
#include "error_matchers.h"

namespace endcap {
namespace {

using testing::Throws;

[[maybe_unused]] const int library_chosen =
    setenv("ENDCAP_CUDA_LIBRARY", EMULATED_CUDA_LIBRARY, /*overwrite=*/1);

constexpr int64_t kAnchors = 40;
constexpr int64_t kRows = 6;
constexpr DeviceId kGpu = {Device::kCuda, 0};

PostprocessParams Params() {
  PostprocessParams params;
  params.head.num_classes = 2;
  params.max_detections = kRows;
  return params;
}

// [6, kAnchors]: boxes side by side, of which every other is a detection.
std::vector<float> Head(float score) {
  std::vector<float> head;
  for (int64_t row = 0; row < 6; ++row) {
    for (int64_t a = 0; a < kAnchors; ++a) {
      const auto x = static_cast<float>(20 * a);
      const std::array<float, 6> numbers = {x, 50, 12, 12, a % 2 == 0 ? score : 0.1F, 0.0F};
      head.push_back(numbers[static_cast<size_t>(row)]);
    }
  }
  return head;
}

ConstTensorView View(const void* data, Device device) {
  ConstTensorView view;
  view.data = data;
  view.shape = {6, kAnchors};
  view.rank = 2;
  view.device = device;
  return view;
}

// Device memory for the outputs of one image.
struct Outputs {
  std::vector<std::shared_ptr<void>> memory;
  PostprocessOutput views;

  Outputs(const PostprocessParams& params, const CudaTarget& target) {
    for (const TensorSpec& spec : PostprocessOutputs(params)) {
      TensorView view;
      view.dtype = spec.dtype;
      view.shape = spec.shape;
      view.rank = spec.rank;
      view.device = Device::kCuda;
      memory.push_back(AllocateCuda(view.size_bytes(), target));
      view.data = memory.back().get();
      views.tensors.push_back(view);
    }
  }

  template <typename T>
  std::vector<T> Read(size_t position, const CudaTarget& target) const {
    std::vector<T> values(static_cast<size_t>(views.tensors[position].size()));
    CopyCuda(values.data(), memory[position].get(), values.size() * sizeof(T), target);
    SynchronizeCuda(target);
    return values;
  }
};

std::shared_ptr<void> Upload(const std::vector<float>& values, const CudaTarget& target) {
  std::shared_ptr<void> memory = AllocateCuda(values.size() * sizeof(float), target);
  CopyCuda(memory.get(), values.data(), values.size() * sizeof(float), target);
  return memory;
}

TEST(GpuPostprocessor, RunTellsWhatBecameOfEachImage) {
  const CudaStream stream(0);
  const CudaTarget target{0, stream.get()};
  Postprocessor postprocessor(Params(), kGpu);
  EXPECT_EQ(postprocessor.device(), kGpu);
  EXPECT_EQ(postprocessor.outputs().size(), 6U);
  auto bad = Head(0.9F);
  bad[100] = std::numeric_limits<float>::quiet_NaN();
  const auto good_memory = Upload(Head(0.9F), target);
  const auto bad_memory = Upload(bad, target);
  const auto geometry = Upload({0.5F, 0.5F, 0, 0, 3000, 3000, 1, 0}, target);
  const auto* geometry_values = static_cast<const float*>(geometry.get());
  const std::vector<PostprocessInput> inputs = {
      {{View(good_memory.get(), Device::kCuda)}, geometry_values, 0, Device::kCuda},
      {{View(bad_memory.get(), Device::kCuda)}, nullptr, 0},
      {{}, nullptr, 3}};
  std::vector<Outputs> memory;
  std::vector<PostprocessOutput> outputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    outputs.push_back(memory.emplace_back(postprocessor.params(), target).views);
  }
  const auto items = postprocessor.Run(inputs, outputs, stream.get());
  ASSERT_EQ(items.size(), 3U);
  EXPECT_TRUE(items[0].status.ok());
  EXPECT_EQ(items[0].num_detections, kRows);
  EXPECT_EQ(items[1].status.code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(items[1].status.message, "head is NaN at element 100");
  EXPECT_TRUE(items[2].status.ok());
  EXPECT_EQ(memory[0].Read<int32_t>(4, target), (std::vector<int32_t>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(memory[0].Read<float>(1, target)[6], (20.0F * 2 + 6) * 2);  // x2 of anchor 2
  EXPECT_EQ(memory[1].Read<int32_t>(5, target), std::vector<int32_t>{4});
  EXPECT_EQ(memory[2].Read<int32_t>(5, target), std::vector<int32_t>{3});
  EXPECT_EQ(memory[2].Read<int32_t>(4, target), std::vector<int32_t>(kRows, -1));
}

TEST(GpuPostprocessor, HeadsInCpuMemoryAreReadBeforeTheCallReturns) {
  const CudaStream stream(0);
  const CudaTarget target{0, stream.get()};
  Postprocessor postprocessor(Params(), kGpu);
  PinnedBuffer pinned(0);
  pinned.Reserve(6 * kAnchors * sizeof(float));
  std::vector<Outputs> memory;
  // Calls that are all under way at once.
  for (int call = 0; call < 4; ++call) {
    auto pageable = Head(0.5F + 0.1F * static_cast<float>(call));
    std::memcpy(pinned.data(), pageable.data(), pageable.size() * sizeof(float));
    const std::vector<PostprocessInput> inputs = {
        {{View(pageable.data(), Device::kCpu)}, nullptr, 0},
        {{View(pinned.data(), Device::kCpu)}, nullptr, 0}};
    std::vector<PostprocessOutput> outputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      outputs.push_back(memory.emplace_back(postprocessor.params(), target).views);
    }
    postprocessor.Enqueue(inputs, outputs, stream.get());
    std::fill(pageable.begin(), pageable.end(), 0.0F);
    std::memset(pinned.data(), 0, pageable.size() * sizeof(float));
  }
  for (size_t i = 0; i < memory.size(); ++i) {
    const float score = 0.5F + 0.1F * static_cast<float>(i / 2);
    EXPECT_EQ(memory[i].Read<float>(2, target), std::vector<float>(kRows, score));
  }
}

TEST(GpuPostprocessor, AGraphTakesNothingOfCpuMemory) {
  const CudaStream stream(0);
  const CudaTarget target{0, stream.get()};
  Postprocessor postprocessor(Params(), kGpu);
  const Outputs memory(postprocessor.params(), target);
  const std::vector<PostprocessOutput> outputs = {memory.views};
  const auto head = Head(0.9F);
  const std::shared_ptr<void> on_gpu = AllocateCuda(head.size() * sizeof(float), target);
  CopyCuda(on_gpu.get(), head.data(), head.size() * sizeof(float), target);
  const std::array<float, Geometry::kSize> geometry = {1, 1, 0, 0, 800, 800, 800, 800};
  std::vector<PostprocessInput> in_graph = {{{View(on_gpu.get(), Device::kCuda)}, nullptr, 0}};
  auto with_geometry = in_graph;
  with_geometry[0].geometry = geometry.data();
  auto with_head = in_graph;
  with_head[0].head = {View(head.data(), Device::kCpu)};
  auto failed = with_geometry;
  failed[0].status = 3;

  void* library = dlopen(EMULATED_CUDA_LIBRARY, RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr) << dlerror();
  using SetCapture = void (*)(void*, bool);
  const auto capture = reinterpret_cast<SetCapture>(dlsym(library, "EndcapEmulateCapture"));
  ASSERT_NE(capture, nullptr);
  for (const auto& inputs : {in_graph, with_geometry, with_head, failed}) {
    postprocessor.Enqueue(inputs, outputs, stream.get());
  }
  capture(stream.get(), true);
  for (const auto& inputs : {in_graph, failed}) {
    postprocessor.Enqueue(inputs, outputs, stream.get());
  }
  for (const auto& inputs : {with_geometry, with_head}) {
    EXPECT_TRUE(Throws(ErrorCode::kUnsupported, "a graph is being captured",
                       [&] { postprocessor.Enqueue(inputs, outputs, stream.get()); }));
  }
  const CudaStream other(0);
  EXPECT_NO_THROW(other.Wait());  // as another thread would, whose work is in no graph
  capture(stream.get(), false);
  postprocessor.Enqueue(with_head, outputs, stream.get());
  dlclose(library);
}

TEST(GpuPostprocessor, RefusesWhatItCannotRead) {
  Postprocessor postprocessor(Params(), kGpu);
  const Outputs memory(postprocessor.params(), {});
  const std::vector<PostprocessOutput> outputs = {memory.views};
  const auto head = Head(0.9F);
  const std::vector<PostprocessInput> inputs = {{{View(head.data(), Device::kCpu)}, nullptr, 0}};
  EXPECT_TRUE(Throws(ErrorCode::kInvalidArgument, "1 heads came with 0 outputs",
                     [&] { postprocessor.Enqueue(inputs, {}, nullptr); }));
  auto on_cpu = outputs;
  on_cpu[0].tensors[2].device = Device::kCpu;
  EXPECT_TRUE(Throws(ErrorCode::kInvalidArgument, "memory of the GPU that runs this",
                     [&] { postprocessor.Enqueue(inputs, on_cpu, nullptr); }));
  auto elsewhere = inputs;
  elsewhere[0].head[0].device = Device::kCuda;
  elsewhere[0].head[0].device_id = 3;
  EXPECT_TRUE(Throws(ErrorCode::kInvalidArgument, "memory of GPU 3",
                     [&] { postprocessor.Enqueue(elsewhere, outputs, nullptr); }));
  const auto shifted = [](void* data) { return static_cast<char*>(data) + 1; };
  const std::shared_ptr<void> memory_of_gpu = AllocateCuda(1024, {0, nullptr});
  auto odd_head = inputs;
  odd_head[0].head[0].device = Device::kCuda;
  odd_head[0].head[0].data = shifted(memory_of_gpu.get());
  EXPECT_TRUE(Throws(ErrorCode::kInvalidArgument, "head does not begin at a multiple",
                     [&] { postprocessor.Enqueue(odd_head, outputs, nullptr); }));
  auto odd_output = outputs;
  odd_output[0].tensors[1].data = shifted(odd_output[0].tensors[1].data);
  EXPECT_TRUE(Throws(ErrorCode::kInvalidArgument, "does not begin at a multiple",
                     [&] { postprocessor.Enqueue(inputs, odd_output, nullptr); }));
  auto wide = inputs;
  wide[0].head[0].shape = {7, 2};
  EXPECT_TRUE(Throws(ErrorCode::kInvalidArgument, "head has shape [7, 2]",
                     [&] { postprocessor.Run(wide, outputs, nullptr); }));
  EXPECT_TRUE(postprocessor.Run({}, {}, nullptr).empty());
  EXPECT_TRUE(Throws(ErrorCode::kCuda, "cuda:5",
                     [&] { Postprocessor(Params(), DeviceId{Device::kCuda, 5}); }));
}

}  // namespace
}  // namespace endcap
