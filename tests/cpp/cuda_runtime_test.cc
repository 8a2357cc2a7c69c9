#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "cuda_runtime/runtime.h"
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

TEST(CudaRuntime, TheDeviceOfMemoryIsKnownOnAThreadWithoutAContext) {
  const std::shared_ptr<void> memory = AllocateCuda(8, {});
  const int on_the_stack = 0;
  int device = -2;
  int of_stack = -2;
  std::thread([&] {
    device = FindCudaDevice(memory.get());
    of_stack = FindCudaDevice(&on_the_stack);
  }).join();
  EXPECT_EQ(device, 0);
  EXPECT_EQ(of_stack, -1);
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

// A function of the emulation, by its name in the library.
template <typename Function>
Function* Emulated(const char* name) {
  void* library = dlopen(EMULATED_CUDA_LIBRARY, RTLD_NOW | RTLD_NOLOAD);
  return reinterpret_cast<Function*>(dlsym(library, name));
}

// A stream that captures a graph in global mode, as torch's do.
class Capture {
 public:
  Capture() { Set(true); }
  ~Capture() {
    Set(false);
    (void)WasHarmed();
  }
  void* stream() const { return stream_.get(); }
  const std::shared_ptr<void>& owner() const { return stream_; }
  bool WasHarmed() const { return Emulated<bool()>("EndcapEmulatedCaptureWasHarmed")(); }

 private:
  void Set(bool captures) const {
    Emulated<void(void*, bool)>("EndcapEmulateCapture")(stream_.get(), captures);
  }
  std::shared_ptr<void> stream_ = NewCudaStream(0);
};

TEST(CudaRuntime, NoCallDisturbsTheCaptureOfAnotherThread) {
  const std::vector<uint8_t> sent = Numbers(100);
  std::vector<uint8_t> received(sent.size());
  PinnedBuffer large(0);
  large.Reserve(size_t{600} << 20);  // more than is kept, so that it is freed
  const Capture capture;
  std::thread([&] {
    const CudaStream stream(0);
    const CudaTarget target{0, stream.get()};
    CudaEvent event(0);
    PinnedBuffer pinned(0);
    pinned.Reserve(size_t{3} << 20);
    large = PinnedBuffer(0);
    const std::shared_ptr<void> memory = AllocateCuda(sent.size(), target);
    CopyCuda(memory.get(), sent.data(), sent.size(), target);
    event.Record(stream.get());
    event.Wait();
    CopyCuda(received.data(), memory.get(), received.size(), target);
    SynchronizeCuda(target);
    CheckCudaStream(target);
    EXPECT_EQ(CaptureIdCuda(target), 0U);
  }).join();
  EXPECT_EQ(received, sent);
  EXPECT_FALSE(capture.WasHarmed());
}

TEST(CudaRuntime, AStreamThatIsCapturedIsNotWaitedForAndCopiesNoPageableMemory) {
  const std::vector<uint8_t> sent = Numbers(100);
  const std::shared_ptr<void> memory = AllocateCuda(sent.size(), {});
  const Capture capture;
  const CudaTarget target{0, capture.stream()};
  EXPECT_NE(CaptureIdCuda(target), 0U);
  EXPECT_TRUE(Throws(ErrorCode::kUnsupported, "captured", [&] { SynchronizeCuda(target); }));
  EXPECT_TRUE(Throws(ErrorCode::kUnsupported, "captured",
                     [&] { CopyCuda(memory.get(), sent.data(), sent.size(), target); }));
  EXPECT_TRUE(
      Throws(ErrorCode::kUnsupported, "a thing cannot", [&] { RefuseCapture(target, "a thing"); }));
  CheckCudaStream(target);
  EXPECT_FALSE(capture.WasHarmed());
}

TEST(CudaRuntime, StreamsInsideAndOutsideOfACaptureAreNotOrdered) {
  const CudaStream other(0);
  const Capture capture;
  const CudaTarget captured{0, capture.stream()};
  EXPECT_TRUE(Throws(ErrorCode::kUnsupported, "another while one of them is being captured",
                     [&] { OrderCudaAfter(captured, other.get()); }));
  EXPECT_TRUE(Throws(ErrorCode::kUnsupported, "another while one of them is being captured",
                     [&] { OrderCudaAfter({0, other.get()}, capture.stream()); }));
  EXPECT_FALSE(capture.WasHarmed());
}

// What a consumer's stream copies out of memory that is released while the copy is waiting, and
// taken by another allocation. `release` lets go of the memory.
template <typename Share>
std::vector<uint8_t> CopyReleasedMemory(const CudaStream& consumer, const Share& share) {
  const CudaStream producer(0);
  const CudaTarget target{0, producer.get()};
  const std::vector<uint8_t> sent = Numbers(64);
  PinnedBuffer down(0);
  down.Reserve(sent.size());
  std::shared_ptr<void> memory = AllocateCuda(sent.size(), target);
  CopyCuda(memory.get(), sent.data(), sent.size(), target);
  OrderCudaAfter({0, consumer.get()}, producer.get());
  CopyCuda(down.data(), memory.get(), sent.size(), {0, consumer.get()});
  share(memory);
  memory.reset();
  SynchronizeCuda(target);
  const std::shared_ptr<void> next = AllocateCuda(sent.size(), target);
  CheckCuda(Cuda().fill(0, next.get(), 0, sent.size(), producer.get()));
  SynchronizeCuda(target);
  consumer.Wait();
  return {down.data(), down.data() + sent.size()};
}

TEST(CudaRuntime, MemoryIsFreedAfterTheWorkOfItsConsumers) {
  const CudaStream consumer(0);
  const auto copy_after = [&](const auto& share) { return CopyReleasedMemory(consumer, share); };
  // Without a note of the consumer the memory is used again too early: the test can tell.
  EXPECT_NE(copy_after([](const auto&) {}), Numbers(64));
  const auto owner = std::make_shared<int>();
  EXPECT_EQ(copy_after([&](const auto& memory) { AddCudaConsumer(memory, consumer.get(), owner); }),
            Numbers(64));
  EXPECT_EQ(owner.use_count(), 1);
  EXPECT_EQ(copy_after([&](const auto& memory) {
              AddCudaConsumer(memory, reinterpret_cast<void*>(uintptr_t{2}), nullptr);
            }),
            Numbers(64));
}

TEST(CudaRuntime, TheProducersStreamDoesNotWaitForAConsumer) {
  const CudaStream producer(0);
  const CudaStream consumer(0);
  PinnedBuffer down(0);
  down.Reserve(4);
  std::shared_ptr<void> memory = AllocateCuda(4, {0, producer.get()});
  CheckCuda(Cuda().fill(0, down.data(), 9, 4, consumer.get()));  // waits until somebody wants it
  AddCudaConsumer(memory, consumer.get(), std::make_shared<int>());
  memory.reset();
  producer.Wait();
  const auto waits = Emulated<int()>("EndcapEmulatedWaits");
  const int before = waits();
  consumer.Wait();
  EXPECT_EQ(waits(), before + 1);  // its work was still to be done
  EXPECT_EQ(down.data()[0], 9);
}

// Whether an allocation gets that address while others are alive.
bool IsGivenAgain(const void* address) {
  const CudaStream stream(0);
  Emulated<void()>("EndcapEmulatedRunAll")();
  std::vector<std::shared_ptr<void>> next(100);
  for (auto& memory : next) memory = AllocateCuda(8, {0, stream.get()});
  return std::ranges::any_of(next, [&](const auto& memory) { return memory.get() == address; });
}

// Releases memory of a stream that another one has used; returns its address.
const void* ReleaseShared(const std::shared_ptr<void>& stream,
                          const std::shared_ptr<void>& consumer) {
  std::shared_ptr<void> memory = AllocateCuda(8, {0, stream.get()}, stream);
  const void* const address = memory.get();
  AddCudaConsumer(memory, consumer.get(), consumer);
  memory.reset();
  return address;
}

TEST(CudaRuntime, MemoryWhoseConsumersAreCapturedIsKeptUntilTheCaptureEnds) {
  const std::shared_ptr<void> producer = NewCudaStream(0);
  const std::shared_ptr<void> other = NewCudaStream(0);
  const void* kept[2];
  {
    const Capture capture;
    for (const void*& each : kept) each = ReleaseShared(producer, capture.owner());
    (void)ReleaseShared(producer, other);
    EXPECT_FALSE(capture.WasHarmed());
    for (const void* const each : kept) EXPECT_FALSE(IsGivenAgain(each));
  }
  {
    // Another capture, in which the kept memory has no part.
    const Capture capture;
    (void)ReleaseShared(producer, other);
    EXPECT_FALSE(capture.WasHarmed());
  }
  for (const void* const each : kept) EXPECT_TRUE(IsGivenAgain(each));
}

TEST(CudaRuntime, AnErrorLosesNoOtherMemoryThatIsKept) {
  const std::shared_ptr<void> producer = NewCudaStream(0);
  const void* kept[2];
  {
    const Capture capture;
    for (const void*& each : kept) each = ReleaseShared(producer, capture.owner());
  }
  // An owner that does not keep its stream.
  void* const gone = NewCudaStream(0).get();
  (void)ReleaseShared(producer, {std::make_shared<int>(), gone});
  for (const void* const each : kept) EXPECT_TRUE(IsGivenAgain(each));
}

TEST(CudaRuntime, MemoryIsNotFreedOnStreamsThatACaptureMakesUnusable) {
  const std::shared_ptr<void> other = NewCudaStream(0);
  {
    const Capture capture;
    std::shared_ptr<void> in_graph = AllocateCuda(8, {0, capture.stream()}, capture.owner());
    Emulated<void(void*)>("EndcapEmulateInvalidCapture")(capture.stream());
    (void)ReleaseShared(other, capture.owner());
    in_graph.reset();
    EXPECT_FALSE(capture.WasHarmed());
  }
  std::shared_ptr<void> memory = AllocateCuda(8, {});  // of the legacy default stream
  const void* const address = memory.get();
  {
    const Capture capture;
    Emulated<void(void*)>("EndcapEmulateBlockingStream")(capture.stream());
    EXPECT_EQ(CaptureIdCuda({}), kUnusableByCapture);
    EXPECT_TRUE(Throws(ErrorCode::kUnsupported, "captured", [] { SynchronizeCuda({}); }));
    memory.reset();
    DeviceBuffer buffer(0);
    buffer.Reserve(8, other.get());
    buffer = DeviceBuffer(0);
    EXPECT_FALSE(capture.WasHarmed());
    EXPECT_FALSE(IsGivenAgain(address));
  }
  AllocateCuda(8, {0, other.get()}).reset();  // any release tries again
  EXPECT_TRUE(IsGivenAgain(address));
}

TEST(CudaRuntime, AnAllocationWaitsForMemoryThatIsStillToBeFreed) {
  const CudaStream producer(0);
  const CudaStream consumer(0);
  constexpr size_t kLargeBytes = size_t{1200} << 20;  // the emulated GPU has 2 GiB
  std::shared_ptr<void> memory = AllocateCuda(kLargeBytes, {0, producer.get()});
  AddCudaConsumer(memory, consumer.get(), std::make_shared<int>());
  memory.reset();
  EXPECT_NE(AllocateCuda(kLargeBytes, {0, producer.get()}), nullptr);
}

TEST(CudaRuntime, MemoryOfBeforeACaptureIsNotFreedByTheGraph) {
  const CudaStream stream(0);
  const CudaTarget target{0, stream.get()};
  std::shared_ptr<void> before = AllocateCuda(8, target);
  Emulated<void(void*, bool)>("EndcapEmulateCapture")(stream.get(), true);
  AllocateCuda(8, target).reset();  // the graph's own
  before.reset();
  Emulated<void(void*, bool)>("EndcapEmulateCapture")(stream.get(), false);
  EXPECT_FALSE(Emulated<bool()>("EndcapEmulatedCaptureWasHarmed")());
}

TEST(CudaRuntime, PinnedMemoryIsUsedAgain) {
  const uint8_t* address = nullptr;
  {
    PinnedBuffer buffer(0);
    buffer.Reserve(size_t{9} << 20);
    address = buffer.data();
  }
  PinnedBuffer again(0);
  again.Reserve((size_t{9} << 20) - 1000);
  EXPECT_EQ(again.data(), address);
  PinnedBuffer another(0);
  another.Reserve(size_t{9} << 20);
  EXPECT_NE(another.data(), address);
}

TEST(CudaRuntime, PinnedMemoryOfSizesThatNobodyWantsIsFreedFirst) {
  const auto use = [](size_t bytes) {
    PinnedBuffer buffer(0);
    buffer.Reserve(bytes);
    return buffer.data();
  };
  for (size_t megabytes = 100; megabytes < 260; megabytes += 40) (void)use(megabytes << 20);
  const uint8_t* const address = use(size_t{33} << 20);
  std::vector<std::unique_ptr<uint8_t[]>> others;  // that the host's allocator gives meanwhile
  others.push_back(std::make_unique<uint8_t[]>(size_t{33} << 20));
  EXPECT_EQ(use(size_t{33} << 20), address);
}

TEST(CudaRuntime, AllocationsDoNotMakeStreamsWaitForEachOther) {
  (void)AllocateCuda(8, {});
  constexpr int kReuseAllowInternalDependencies = 3;
  EXPECT_EQ(
      Emulated<int(int, int)>("EndcapEmulatedPoolAttribute")(0, kReuseAllowInternalDependencies),
      0);
}

TEST(CudaRuntime, AnUnrecoverableErrorIsRememberedAndSaysWhatToDo) {
  const CudaStream stream(0);
  const std::shared_ptr<void> memory = AllocateCuda(8, {});
  EXPECT_FALSE(CudaNeedsRestart());
  constexpr int kIllegalAddress = 700;
  const auto set_fault = Emulated<void(int)>("EndcapEmulateFault");
  set_fault(kIllegalAddress);
  EXPECT_TRUE(Throws(ErrorCode::kCuda, "cudaErrorIllegalAddress); this process can no longer use",
                     [&] { CheckCudaStream({0, stream.get()}); }));
  EXPECT_TRUE(CudaNeedsRestart());
  set_fault(0);
}

}  // namespace
}  // namespace endcap
