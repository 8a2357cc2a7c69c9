#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "cuda/runtime.h"
#include "endcap/cuda.h"
#include "error_matchers.h"

// The core's side of CUDA on the emulated library.

namespace endcap {
namespace {

using testing::Throws;

[[maybe_unused]] const int library_chosen =
    setenv("ENDCAP_CUDA_LIBRARY", EMULATED_CUDA_LIBRARY, /*overwrite=*/1);

std::vector<uint8_t> Numbers(size_t count) {
  std::vector<uint8_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), uint8_t{1});
  return numbers;
}

TEST(CudaRuntime, DescribesTheDevice) {
  const CudaState& state = DescribeCuda();
  ASSERT_TRUE(state.available) << state.reason;
  ASSERT_EQ(state.devices.size(), 1U);
  EXPECT_GT(state.devices[0].memory_bytes, 0);
  EXPECT_GT(state.devices[0].multiprocessors, 0);
  RequireCuda(0);
}

TEST(CudaRuntime, CopiesUpAndDownInTheOrderOfAStream) {
  const CudaStream stream(0);
  const CudaTarget target{0, stream.get()};
  const std::vector<uint8_t> sent = Numbers(1000);
  std::vector<uint8_t> received(sent.size());
  const std::shared_ptr<void> memory = AllocateCuda(sent.size(), target);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.get()) % 256, 0U);
  CopyCuda(memory.get(), sent.data(), sent.size(), target);
  CopyCuda(received.data(), memory.get(), received.size(), target);
  SynchronizeCuda(target);
  EXPECT_EQ(received, sent);
}

TEST(CudaRuntime, ATensorWithoutElementsHasAnAddress) {
  EXPECT_NE(AllocateCuda(0, {}).get(), nullptr);
  CopyCuda(nullptr, nullptr, 0, {});
}

TEST(CudaRuntime, OneStreamWaitsForAnother) {
  const CudaStream first(0);
  const CudaStream second(0);
  PinnedBuffer up(0);
  PinnedBuffer down(0);
  up.Reserve(16);
  down.Reserve(16);
  std::memset(up.data(), 7, 16);
  std::memset(down.data(), 0, 16);
  const std::shared_ptr<void> memory = AllocateCuda(16, {0, first.get()});
  CopyCuda(memory.get(), up.data(), 16, {0, first.get()});
  OrderCudaAfter({0, second.get()}, first.get());
  CopyCuda(down.data(), memory.get(), 16, {0, second.get()});
  second.Wait();
  EXPECT_EQ(std::vector<uint8_t>(down.data(), down.data() + 16), std::vector<uint8_t>(16, 7));
}

TEST(CudaRuntime, AnEventIsWaitedForByTheHostAndIsDoneBeforeItWasRecorded) {
  const CudaStream stream(0);
  CudaEvent event(0);
  event.Wait();
  PinnedBuffer down(0);
  down.Reserve(4);
  std::memset(down.data(), 0, 4);
  CheckCuda(Cuda().fill(0, down.data(), 9, 4, stream.get()));
  event.Record(stream.get());
  CudaEvent moved(std::move(event));
  moved.Wait();
  EXPECT_EQ(down.data()[3], 9);
}

TEST(CudaRuntime, BuffersGrowAndStay) {
  const CudaStream stream(0);
  DeviceBuffer device(0);
  PinnedBuffer pinned(0);
  device.Reserve(1000, stream.get());
  pinned.Reserve(1000);
  const uint8_t* const device_data = device.data();
  const uint8_t* const pinned_data = pinned.data();
  device.Reserve(10, stream.get());
  pinned.Reserve(1000);
  EXPECT_EQ(device.data(), device_data);
  EXPECT_EQ(pinned.data(), pinned_data);
  device.Reserve(1001, stream.get());
  pinned.Reserve(1001);
  EXPECT_GE(device.capacity(), 1500U);
  EXPECT_GE(pinned.capacity(), 1500U);
  const DeviceBuffer moved(std::move(device));
  EXPECT_GE(moved.capacity(), 1500U);
  pinned = PinnedBuffer(0);
  EXPECT_EQ(pinned.data(), nullptr);
  EXPECT_EQ(pinned.capacity(), 0U);
}

TEST(CudaRuntime, TellsWhereMemoryLies) {
  const auto kind_of = [](const void* memory) {
    CudaMemoryKind kind{};
    int32_t device = 0;
    CheckCuda(Cuda().locate(memory, &kind, &device));
    return kind;
  };
  const int on_the_stack = 0;
  EXPECT_EQ(kind_of(&on_the_stack), CudaMemoryKind::kHost);
  EXPECT_EQ(kind_of(AllocateCuda(8, {}).get()), CudaMemoryKind::kDevice);
  PinnedBuffer pinned(0);
  pinned.Reserve(8);
  EXPECT_EQ(kind_of(pinned.data() + 7), CudaMemoryKind::kPinned);
}

TEST(CudaRuntime, ErrorsHaveACodeAndSayWhichCallFailed) {
  EXPECT_TRUE(Throws(ErrorCode::kOutOfMemory, "cudaMallocFromPoolAsync",
                     [] { AllocateCuda(size_t{1} << 50, {}); }));
  EXPECT_TRUE(Throws(ErrorCode::kCuda, "cudaSetDevice", [] { CudaStream stream(4711); }));
  EXPECT_TRUE(Throws(ErrorCode::kCuda, "cuda:1", [] { RequireCuda(1); }));
  // A buffer that could not grow is empty, and can be used again.
  DeviceBuffer buffer(0);
  buffer.Reserve(8, nullptr);
  EXPECT_TRUE(Throws(ErrorCode::kOutOfMemory, "cudaMallocFromPoolAsync",
                     [&] { buffer.Reserve(size_t{1} << 50, nullptr); }));
  EXPECT_EQ(buffer.capacity(), 0U);
  buffer.Reserve(8, nullptr);
  EXPECT_NE(buffer.data(), nullptr);
}

}  // namespace
}  // namespace endcap
